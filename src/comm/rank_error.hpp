// SPDX-License-Identifier: Apache-2.0
/// What a rank threw, in words.
#pragma once
#include <exception>
#include <string>

#include "zeroth/comm/exit_code.hpp"

namespace zeroth::comm {

struct RankError {
  std::string text;            ///< With the rank in front.
  std::string bare;            ///< Without it.
  bool is_peer_error = false;  ///< Then somebody else is the cause.
  int exit_code = ExitCode::failed;
  bool is_config_error = false;  ///< Then no collective has to do with it.
};
/// Of the exception that is being handled, on the rank's own thread.
[[nodiscard]] RankError describe_current_exception();

}  // namespace zeroth::comm
