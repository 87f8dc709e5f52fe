/// Whether all ranks are about to do the same: what they tell each other before a transaction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/transaction.hpp"

namespace zeroth::comm {

/// What is always compared.
struct TransactionDigest {
  std::uint64_t hash = 0;
  std::uint64_t count = 0;  ///< Collectives of all ranks.
  friend bool operator==(TransactionDigest const&, TransactionDigest const&) = default;
};
[[nodiscard]] TransactionDigest digest_of(Transaction const& transaction) noexcept;

/// What is said about a transaction where digests differ: its label and all that concerns all ranks, for messages.
[[nodiscard]] std::size_t outline_bytes(std::uint64_t longest_count) noexcept;
void write_outline(Transaction const& transaction, std::span<std::byte> outline);
/// The label's views are into `outline`.
[[nodiscard]] Transaction read_outline(std::span<std::byte const> outline);

}  // namespace zeroth::comm
