// SPDX-License-Identifier: Apache-2.0
/// Results of operations that all ranks try at the same time and that may fail on some only, such as opening a file.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/exchange.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

/// The outcome of an operation on one rank.
struct RankResult {
  enum class Kind : std::uint8_t { nothing, warning, contract_error, system_error, damage };
  Kind kind = Kind::nothing;
  std::string text;  ///< Without the rank prefix.
  int job_rank = 0;  ///< Set by gather_results().
  [[nodiscard]] bool failed() const noexcept { return kind >= Kind::contract_error; }
};

/// Describes the exception being handled: ContractError and DamagedError keep their kind, all others become
/// system_error.
[[nodiscard]] RankResult describe_failure();

/// All-gathers every rank's result. Collective; waits. Sends one number per rank, and texts only if there are any.
[[nodiscard]] std::vector<RankResult> gather_results(RankResult const& mine, std::string_view purpose,
                                                     Exchange const& exchange);

/// Runs `action(result)`, and returns its result, or a description of what it threw. Throws PeerError, which says that
/// ranks have diverged.
template <class F>
[[nodiscard]] RankResult result_of(F const& action) {
  RankResult mine;
  try {
    action(mine);
  } catch (PeerError const&) {
    throw;
  } catch (...) {
    mine = describe_failure();
  }
  return mine;
}

/// Runs `action(result)`, which may fail on some ranks only, and returns the results of all ranks. Collective; waits.
/// Do not use it after PeerError.
template <class F>
std::vector<RankResult> run_on_all_ranks(std::string_view purpose, Exchange const& exchange, F const& action) {
  return gather_results(result_of(action), purpose, exchange);
}

[[nodiscard]] inline bool failed(std::vector<RankResult> const& all) {
  return std::ranges::any_of(all, &RankResult::failed);
}

/// Throws the same error on all ranks if one of `all` failed: "`what`: rank 1: ...", without the rank if all failed
/// alike. Throws DamagedError only if no rank failed for another reason.
void throw_if_failed(std::string_view what, std::vector<RankResult> const& all);

}  // namespace zeroth::engine
