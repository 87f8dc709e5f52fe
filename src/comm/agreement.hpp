// SPDX-License-Identifier: Apache-2.0
/// Checks before a transaction that all ranks issue the same one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "comm/transaction.hpp"

namespace zeroth::comm {

class Agreement {
 public:
  /// Gathers `bytes` of every rank, starting with `mine`, in rank order in `all`. Throws if a rank does not come.
  using Exchange = std::function<void(void const* mine, void* all, std::int64_t bytes)>;
  explicit Agreement(int world) : said_(static_cast<std::size_t>(world)) {}

  /// Returns an empty string if all ranks of `group` issue the same collectives of all ranks as in `transaction`.
  /// Otherwise returns a description of the difference, the same on all ranks at the same time. Costs one exchange of
  /// 24 bytes, and a second one with the description if they differ.
  [[nodiscard]] std::string compare(Group const& group, Transaction const& transaction, SplitRequest const& request,
                                    Exchange const& exchange);
  /// The request of each rank in the last compared transaction, [world].
  [[nodiscard]] std::vector<SplitRequest> requests() const;

 private:
  struct Said {
    std::uint64_t hash = 0;
    std::uint64_t count = 0;  ///< Collectives of all ranks.
    SplitRequest request;
  };
  [[nodiscard]] std::string disagreement(Group const& group, Transaction const& transaction, std::size_t differing,
                                         Exchange const& exchange) const;

  std::vector<Said> said_;  // [world]
};

/// Size of the description of a message that sender and receiver exchange.
[[nodiscard]] std::size_t message_outline_bytes() noexcept;
void write_message_outline(Transaction const& transaction, Collective const& message, std::span<std::byte> outline);
/// Compares `mine`, a message of `transaction`, with its partner's description in `theirs`. Returns an empty string if
/// they match, otherwise the difference.
[[nodiscard]] std::string compare_message(Group const& group, Transaction const& transaction, Collective const& mine,
                                          std::span<std::byte const> theirs);

}  // namespace zeroth::comm
