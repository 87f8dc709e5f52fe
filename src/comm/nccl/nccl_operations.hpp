// SPDX-License-Identifier: Apache-2.0
/// A transaction as calls of NCCL.
#pragma once
#include <nccl.h>

#include "comm/nccl/nccl_call.hpp"
#include "comm/transaction.hpp"

namespace zeroth::comm {

/// Where a transaction is issued, and by whom.
struct NcclIssue {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0, world = 1;
  void* barrier_word = nullptr;  ///< Four bytes of the GPU that nobody reads.
};

/// How a transaction is taken apart. What NCCL has itself, what is built from its sends and receives, and messages go
/// in groups of their own, in this order on all ranks: sends and receives of two ranks match in the order in which they
/// are issued, and ranks bring messages in different places between their collectives.
enum class NcclPart : std::uint8_t { native, built, messages };

/// Whether `transaction` has anything for `part`.
[[nodiscard]] bool has_part(Transaction const& transaction, NcclPart part) noexcept;
/// Issues that part as one group. Counts of zero are passed over, on all ranks.
[[nodiscard]] ncclResult_t issue_part(NcclIssue const& at, Transaction const& transaction, NcclPart part);

}  // namespace zeroth::comm
