// SPDX-License-Identifier: Apache-2.0
/// What a rank did since the last step, so that ranks that took different paths can be told where they parted.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/hash.hpp"
#include "engine/exchange.hpp"
#include "shard/transaction_log.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

enum class Verb : std::uint8_t {
  forward,
  backward,
  backward_inputs,
  backward_weights,
  pass_over,
  evaluation,
  begin_micro_step,
  begin_evaluation,
  load_weights,
  save_weights,
  save,
  learning_rate,
  read,
  write,
  gradient_norm,
  gradient_norm_of,
  add_metric,
  begin_action
};

/// Calls of one step, in order: all in a hash, and the first of those that ranks have not compared yet in a list that
/// does not grow beyond 128 KiB. Keeps its memory when it is cleared.
class CallLog {
 public:
  /// `argument`: the unit, the parameter, the bits of the learning rate, a hash of the metric's name or of the folder.
  void add(Verb verb, std::uint32_t argument = 0);
  void clear() noexcept;
  /// All ranks have made the same calls so far: none of those is listed any more.
  void settle() noexcept;
  /// `hash` is of all transactions of this rank so far. Ranks that make the same calls have the same hash, unless they
  /// went apart.
  void note_transactions(std::uint64_t hash) noexcept { transactions_ = hash; }
  /// 32 bits, of calls and transactions: exact in a sum of doubles over ranks.
  [[nodiscard]] double hash() const noexcept {
    auto both = hash_;
    both.add(transactions_);
    return both.value();
  }
  [[nodiscard]] std::vector<std::uint64_t> const& calls() const noexcept { return calls_; }
  [[nodiscard]] std::int64_t settled() const noexcept { return settled_; }  ///< Calls before those that are listed.

 private:
  std::vector<std::uint64_t> calls_;
  std::int64_t count_ = 0, settled_ = 0;
  Fnv1a32 hash_;
  std::uint64_t transactions_ = 0;
};

/// Collective: compares the call logs of all ranks. Throws PeerError that names the first call in which they differ,
/// the units, and the ranks. Returns where none of those that are listed does.
void compare_call_logs(CallLog const& mine, std::int64_t step, model::Description const& model,
                       Exchange const& exchange);
/// Likewise of what ranks communicated: names the first transaction in which they differ.
void compare_transactions(std::span<shard::TransactionLog const> mine, std::int64_t step, shard::Layout const& layout,
                          Exchange const& exchange);

}  // namespace zeroth::engine
