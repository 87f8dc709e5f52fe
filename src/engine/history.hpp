// SPDX-License-Identifier: Apache-2.0
/// What a rank did since the last step, so that ranks that took different paths can be told where they parted.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/hash.hpp"
#include "engine/exchange.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

enum class Verb : std::uint8_t {
  forward,
  backward,
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
  add_metric
};

/// Calls of one step, in order: all in a hash, and the first of those that ranks have not compared yet in a list that
/// does not grow beyond 128 KiB. Keeps its memory when it is cleared.
class History {
 public:
  /// `argument`: the unit, the parameter, the bits of the learning rate, a hash of the metric's name or of the folder.
  void add(Verb verb, std::uint32_t argument = 0);
  void clear() noexcept;
  /// All ranks have made the same calls so far: none of those is listed any more.
  void settle() noexcept;
  /// 32 bits: exact in a sum of doubles over ranks.
  [[nodiscard]] double hash() const noexcept { return hash_.value(); }
  [[nodiscard]] std::vector<std::uint64_t> const& calls() const noexcept { return calls_; }
  [[nodiscard]] std::int64_t settled() const noexcept { return settled_; }  ///< Calls before those that are listed.

 private:
  std::vector<std::uint64_t> calls_;
  std::int64_t count_ = 0, settled_ = 0;
  Fnv1a32 hash_;
};

/// Collective: compares the histories of all ranks. Throws PeerError that names the first call in which they differ,
/// the units, and the ranks, or that it came after those that are listed. Only where hashes differ.
void compare_histories(History const& mine, std::int64_t step, model::Description const& model,
                       Exchange const& exchange);

}  // namespace zeroth::engine
