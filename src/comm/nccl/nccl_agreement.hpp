// SPDX-License-Identifier: Apache-2.0
/// Checks that all ranks of an NCCL communicator issue the same transactions: their hosts compare them in the store.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/nccl/nccl_link.hpp"
#include "comm/nccl/nccl_session.hpp"

namespace zeroth::comm {

/// Belongs to one communicator; call on its thread. Each function waits for the other hosts, as long as the transaction
/// may take. If they do not come, or are about to do something else, it fails the job and throws PeerError.
class NcclAgreement {
 public:
  /// Both must outlive this.
  NcclAgreement(NcclSession& session, NcclLink const& link);

  /// Checks that all ranks are about to run `transaction`.
  void agree(Transaction const& transaction);
  /// Checks that all ranks are about to split. Returns the request of each, [world].
  [[nodiscard]] std::vector<SplitRequest> agree_to_split(Transaction const& transaction, SplitRequest const& request);
  /// Sender and receiver exchange descriptions of what they are about to do, so that both detect a mismatch.
  void compare_messages(Transaction const& transaction);

 private:
  void compare(Transaction const& transaction, SplitRequest const& request);
  void exchange(Transaction const& transaction, void const* mine, void* all, std::int64_t bytes);
  /// Calls `wait`, a call of the store, and names the missing ranks if it times out.
  template <class Wait>
  auto in_time(Transaction const& transaction, Wait const& wait);
  [[nodiscard]] std::string about_to_enter(Transaction const& transaction) const;

  NcclSession& session_;
  NcclLink const& link_;
  Agreement agreement_;
  std::vector<std::uint64_t> sent_, received_;  // [world], messages that were compared
};

}  // namespace zeroth::comm
