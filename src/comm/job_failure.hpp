// SPDX-License-Identifier: Apache-2.0
/// Why a job ends before its time.
#pragma once
#include <string>

namespace zeroth::comm {

struct JobFailure {
  int origin = 0;  ///< The rank that is the cause, or that found out.
  std::string reason;
  bool is_over = false;  ///< That rank has ended its connection: nobody needs to wait until it has said more.
};

}  // namespace zeroth::comm
