// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint inspect` of one checkpoint, for people, and for programs. Names are safe for a terminal.
#pragma once
#include <string>

#include "checkpoint_facts.hpp"
#include "paper.hpp"

namespace zeroth::tools {

/// What is shown only on request.
struct InspectOptions {
  bool parameters = false;  ///< All of them; JSON always has them.
  bool stage_file = false;  ///< Of the run that saved, resolved.
};

[[nodiscard]] std::string as_text(CheckpointFacts const& facts, InspectOptions const& options, Paper const& paper = {});
[[nodiscard]] std::string as_json(CheckpointFacts const& facts, InspectOptions const& options);

}  // namespace zeroth::tools
