// SPDX-License-Identifier: Apache-2.0
/// The reason for the premature end of a job.
#pragma once
#include <string>

namespace zeroth::comm {

struct JobFailure {
  int origin = 0;  ///< The rank that caused or detected the failure.
  std::string reason;
  bool is_over = false;  ///< Whether that rank has ended its connection, and so will not report more.
};

}  // namespace zeroth::comm
