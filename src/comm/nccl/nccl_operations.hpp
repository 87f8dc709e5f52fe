// SPDX-License-Identifier: Apache-2.0
/// A transaction as calls of NCCL.
#pragma once
#include <nccl.h>

#include "comm/nccl/nccl_call.hpp"
#include "comm/transaction.hpp"

namespace zeroth::comm {

/// The communicator, stream and rank that issue a transaction.
struct NcclIssue {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0, world = 1;
  void* barrier_word = nullptr;  ///< Four bytes of the GPU whose value does not matter.
};

/// The parts of a transaction. NCCL's own collectives, those built from its sends and receives, and messages are issued
/// as separate groups, in this order on all ranks. Sends and receives of two ranks match in the order in which they are
/// issued, but ranks may have messages at different positions between their collectives.
enum class NcclPart : std::uint8_t { native, built, messages };

/// Whether `transaction` has anything for `part`.
[[nodiscard]] bool has_part(Transaction const& transaction, NcclPart part) noexcept;
/// Issues that part as one group. Skips counts of zero, on all ranks.
[[nodiscard]] ncclResult_t issue_part(NcclIssue const& at, Transaction const& transaction, NcclPart part);

}  // namespace zeroth::comm
