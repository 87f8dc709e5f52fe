// SPDX-License-Identifier: Apache-2.0
/// Whether all ranks are about to do the same: what they tell each other before a transaction.
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
  /// Gathers `bytes` of every rank, `mine`, in rank order in `all`. Throws if not all come.
  using Exchange = std::function<void(void const* mine, void* all, std::int64_t bytes)>;
  explicit Agreement(int world) : said_(static_cast<std::size_t>(world)) {}

  /// Whether all ranks of `group` are about to do what `transaction` says for all of them: empty if they are; otherwise
  /// what to say, the same on all ranks, which find out at the same time. Costs one exchange of 24 bytes, and a second
  /// one, of what a transaction is in words, where they are not.
  [[nodiscard]] std::string compare(Group const& group, Transaction const& transaction, SplitRequest const& request,
                                    Exchange const& exchange);
  /// What each rank asked with the transaction that was compared last, [world].
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

/// What sender and receiver of a message tell each other about it, in so many bytes.
[[nodiscard]] std::size_t message_outline_bytes() noexcept;
void write_message_outline(Transaction const& transaction, Collective const& message, std::span<std::byte> outline);
/// Whether `mine`, a message of `transaction`, is what its partner has told in `theirs`: empty if it is, and otherwise
/// what to say.
[[nodiscard]] std::string compare_message(Group const& group, Transaction const& transaction, Collective const& mine,
                                          std::span<std::byte const> theirs);

}  // namespace zeroth::comm
