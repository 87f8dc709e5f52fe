// SPDX-License-Identifier: Apache-2.0
#include "engine/rank_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "comm/gather_bytes.hpp"
#include "comm/rank_error.hpp"
#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

RankResult describe_failure() {
  auto const text = comm::describe_current_exception().bare;
  try {
    throw;
  } catch (ContractError const&) {
    return {.kind = RankResult::Kind::contract_error, .text = text};
  } catch (DamagedError const&) {
    return {.kind = RankResult::Kind::damage, .text = text};
  } catch (...) {
    return {.kind = RankResult::Kind::system_error, .text = text};
  }
}

std::vector<RankResult> gather_results(RankResult const& mine, std::string_view purpose, Exchange const& exchange) {
  bool const says_something = mine.kind != RankResult::Kind::nothing;
  // One byte of kind, then the text.
  auto const said = says_something ? static_cast<char>(mine.kind) + mine.text : std::string{};
  auto const by_all = comm::gather_bytes({*exchange.communicator, *exchange.device, *exchange.stream, purpose}, said);
  std::vector<RankResult> all(by_all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].job_rank = exchange.job_rank(rank);
    if (!by_all[rank].empty()) {
      all[rank].kind = static_cast<RankResult::Kind>(by_all[rank].front());
      all[rank].text = by_all[rank].substr(1);
    }
  }
  return all;
}

void throw_if_failed(std::string_view what, std::vector<RankResult> const& all) {
  auto first = std::ranges::find_if(
      all, [](auto const& each) { return each.failed() && each.kind != RankResult::Kind::damage; });
  if (first == all.end()) {
    first = std::ranges::find_if(all, &RankResult::failed);
  }
  if (first == all.end()) {
    return;
  }
  auto const others = std::ranges::count_if(all, &RankResult::failed) - 1;
  bool const all_say_it =
      std::ranges::all_of(all, [&](auto const& each) { return each.kind == first->kind && each.text == first->text; });
  auto const who = all_say_it ? std::string{}
                              : fmt::format("rank {}{}: ", first->job_rank,
                                            others > 0 ? fmt::format(" (and {} more)", others) : std::string{});
  auto const text = fmt::format("{}: {}{}", what, who, first->text);
  if (first->kind == RankResult::Kind::contract_error) {
    throw ContractError{text};
  }
  if (first->kind == RankResult::Kind::damage) {
    throw DamagedError{text};
  }
  throw SystemError{text};
}

}  // namespace zeroth::engine
