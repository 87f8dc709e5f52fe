// SPDX-License-Identifier: Apache-2.0
/// The reported status of a rank.
#pragma once
#include <cstdint>
#include <string>

namespace zeroth::comm {

/// A rank's answer to a status query.
struct PeerStatus {
  int rank = 0;  ///< In the job.
  bool answered = false;
  std::uint64_t begun = 0;  ///< The last transaction of all ranks that it has begun on the communicator in question.
  std::string words;        ///< Its last operation.
  bool here = false;        ///< Set by the asking rank: it has reached the awaited transaction.
};

}  // namespace zeroth::comm
