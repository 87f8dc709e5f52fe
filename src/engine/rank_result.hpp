// SPDX-License-Identifier: Apache-2.0
/// What all ranks try at the same time, and some may fail at alone: a file that only one machine has, a full disk.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/exchange.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

/// What a rank has to say about what it tried.
struct RankResult {
  enum class Kind : std::uint8_t { nothing, warning, contract_error, system_error, damage };
  Kind kind = Kind::nothing;
  std::string text;  ///< Without the rank in front.
  int job_rank = 0;  ///< Whose it is: gather_results() knows.
  [[nodiscard]] bool failed() const noexcept { return kind >= Kind::contract_error; }
};

/// Of the exception that is being handled: ContractError stays one, all else is the machine's.
[[nodiscard]] RankResult describe_failure();

/// Collective: what every rank found, by rank. Waits. One number of every rank, and texts only if there are any.
[[nodiscard]] std::vector<RankResult> gather_results(RankResult const& mine, std::string_view purpose,
                                                     Exchange const& exchange);

/// Runs `action(result)`, which may fail on some ranks only; what all of them found. Not after PeerError, which says
/// that the ranks no longer agree. Collective, waits.
template <class F>
std::vector<RankResult> run_on_all_ranks(std::string_view purpose, Exchange const& exchange, F const& action) {
  RankResult mine;
  try {
    action(mine);
  } catch (PeerError const&) {
    throw;
  } catch (...) {
    mine = describe_failure();
  }
  return gather_results(mine, purpose, exchange);
}

[[nodiscard]] inline bool failed(std::vector<RankResult> const& all) {
  return std::ranges::any_of(all, &RankResult::failed);
}

/// Throws the same error on all ranks if one of `all` is one: "`what`: rank 1: ...", without the rank if all say it.
/// DamagedError only if no rank has failed for another reason, which is told first.
void throw_if_failed(std::string_view what, std::vector<RankResult> const& all);

}  // namespace zeroth::engine
