// SPDX-License-Identifier: Apache-2.0
/// Where a rank says it is.
#pragma once
#include <cstdint>
#include <string>

namespace zeroth::comm {

/// What a rank answered when it was asked where it is.
struct PeerStatus {
  int rank = 0;  ///< In the job.
  bool answered = false;
  std::uint64_t begun = 0;  ///< The last transaction of all ranks that it has come to on the communicator in question.
  std::string words;        ///< What it did last.
  bool here = false;        ///< Who asked finds that it has come to what was waited for.
};

}  // namespace zeroth::comm
