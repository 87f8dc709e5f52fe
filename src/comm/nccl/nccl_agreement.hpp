// SPDX-License-Identifier: Apache-2.0
/// Whether all ranks of an NCCL communicator are about to do the same: their hosts tell each other in the store.
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

/// Of one communicator, on its thread. Each function waits for the others' hosts, as long as the transaction may take,
/// and throws PeerError, of a job that has failed, where they do not come or are about to do something else.
class NcclAgreement {
 public:
  /// Both outlive it.
  NcclAgreement(NcclSession& session, NcclLink const& link);

  /// All ranks are about to do `transaction`.
  void agree(Transaction const& transaction);
  /// They are about to split: what each of them asks, [world].
  [[nodiscard]] std::vector<SplitRequest> agree_to_split(Transaction const& transaction, SplitRequest const& request);
  /// Sender and receiver tell each other what they are about to do, so that both find out if it is not the same.
  void compare_messages(Transaction const& transaction);

 private:
  void compare(Transaction const& transaction, SplitRequest const& request);
  void exchange(Transaction const& transaction, void const* mine, void* all, std::int64_t bytes);
  /// Runs `wait`, a call of the store, and says who was missing if it takes too long.
  template <class Wait>
  auto in_time(Transaction const& transaction, Wait const& wait);
  [[nodiscard]] std::string about_to_enter(Transaction const& transaction) const;

  NcclSession& session_;
  NcclLink const& link_;
  Agreement agreement_;
  std::vector<std::uint64_t> sent_, received_;  // [world], messages that were compared
};

}  // namespace zeroth::comm
