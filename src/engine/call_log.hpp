// SPDX-License-Identifier: Apache-2.0
/// The calls that a rank has made since the last step, to find the first call in which ranks diverged.
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
  swap_ema,
  save_weights,
  save,
  save_failure,
  save_with_rank_state,
  learning_rate,
  learning_rate_factors,
  read,
  write,
  gradient_norm,
  gradient_norm_of,
  edit_gradients,
  add_metric,
  begin_action,
  replay
};

/// The calls of one step, in order. All of them go into a hash; those that ranks have not compared yet are also listed,
/// up to 128 KiB of them. clear() keeps the memory.
class CallLog {
 public:
  /// `argument`: the unit, the parameter, the bits of the learning rate, a hash of the metric's name or of the folder.
  void add(Verb verb, std::uint32_t argument = 0);
  void clear() noexcept;
  /// Empties the list, because all ranks have made the same calls so far.
  void settle() noexcept;
  /// `hash` covers all transactions of this rank so far. It is the same on ranks that make the same calls, unless they
  /// diverged.
  void note_transactions(std::uint64_t hash) noexcept { transactions_ = hash; }
  /// A 32-bit hash of calls and transactions, so that a sum over ranks in double is exact.
  [[nodiscard]] double hash() const noexcept {
    auto both = hash_;
    both.add(transactions_);
    return both.value();
  }
  [[nodiscard]] std::vector<std::uint64_t> const& calls() const noexcept { return calls_; }
  [[nodiscard]] std::int64_t settled() const noexcept { return settled_; }  ///< Number of calls before the listed ones.

 private:
  std::vector<std::uint64_t> calls_;
  std::int64_t count_ = 0, settled_ = 0;
  Fnv1a32 hash_;
  std::uint64_t transactions_ = 0;
};

/// Compares the call logs of all ranks. Collective. Throws PeerError that names the first call that differs, its units
/// and the ranks. Returns normally if no listed call differs.
void compare_call_logs(CallLog const& mine, std::int64_t step, model::Description const& model,
                       Exchange const& exchange);
/// Compares the transactions of all ranks. Collective. Throws PeerError that names the first one that differs.
void compare_transactions(std::span<shard::TransactionLog const> mine, std::int64_t step, shard::Layout const& layout,
                          Exchange const& exchange);

}  // namespace zeroth::engine
