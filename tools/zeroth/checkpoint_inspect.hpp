// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint inspect` for one checkpoint, as text and as JSON. Names are safe for a terminal.
#pragma once
#include <string>

#include "checkpoint_facts.hpp"
#include "paper.hpp"

namespace zeroth::tools {

/// Parts that are shown only on request.
struct InspectOptions {
  bool parameters = false;  ///< Lists all parameters; JSON always does.
  bool stage_file = false;  ///< Shows the resolved stage file of the run that saved.
};

[[nodiscard]] std::string as_text(CheckpointFacts const& facts, InspectOptions const& options, Paper const& paper = {});
[[nodiscard]] std::string as_json(CheckpointFacts const& facts, InspectOptions const& options);

}  // namespace zeroth::tools
