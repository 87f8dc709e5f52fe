// SPDX-License-Identifier: Apache-2.0
/// The error that a rank threw, as text.
#pragma once
#include <exception>
#include <string>

#include "zeroth/comm/exit_code.hpp"

namespace zeroth::comm {

struct RankError {
  std::string text;            ///< With the rank as a prefix.
  std::string bare;            ///< Without the rank.
  bool is_peer_error = false;  ///< Then another rank is the cause.
  int exit_code = ExitCode::failed;
  bool is_config_error = false;  ///< Then it has nothing to do with a collective.
};
/// Describes the exception being handled. Call on the rank's own thread.
[[nodiscard]] RankError describe_current_exception();

}  // namespace zeroth::comm
