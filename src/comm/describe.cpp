// SPDX-License-Identifier: Apache-2.0
#include "comm/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "comm/operations.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::comm {
namespace {

std::string_view peer_word(Operation operation) noexcept {
  switch (operation) {
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::gather:
    case Operation::scatter: return "root";
    case Operation::send: return "to rank";
    case Operation::receive: return "from rank";
    default: return "";
  }
}

}  // namespace

std::string purpose_and_unit(std::string_view purpose, std::string_view unit) {
  return unit.empty()      ? escaped(purpose)
         : purpose.empty() ? escaped(unit)
                           : fmt::format("{} of unit '{}'", escaped(purpose), escaped(unit));
}

std::string describe(Label const& label, Collective const& collective, std::span<int const> job_ranks) {
  std::string_view const purpose = label.purpose.substr(0, sizeof(Record::purpose) - 1);
  std::string_view const unit = label.unit.substr(0, sizeof(Record::unit) - 1);
  std::string words = purpose_and_unit(purpose, unit);
  if (collective.operation != Operation::barrier) {
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", collective.count, name_of(collective.dtype));
  }
  if (is_reduction(collective.operation) && collective.reduce != Reduce::sum) {
    words += fmt::format(", by {}", name_of(collective.reduce));
    words += collective.reduce == Reduce::premul_sum ? fmt::format(" with factor {}", collective.factor) : "";
  }
  bool const is_rank = collective.peer >= 0 && collective.peer < static_cast<int>(job_ranks.size());
  if (std::string_view const peer = peer_word(collective.operation); !peer.empty() && is_rank) {
    words += fmt::format(", {} {}", peer, job_ranks[static_cast<std::size_t>(collective.peer)]);
  }
  return fmt::format("{} ({})", name_of(collective.operation), words);
}

std::string describe(std::chrono::nanoseconds duration) {
  double const seconds = std::chrono::duration<double>{duration}.count();
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string describe_ranks(std::vector<int> job_ranks) {
  std::sort(job_ranks.begin(), job_ranks.end());
  auto const count = job_ranks.size();
  auto const last = job_ranks.back();
  if (count == 1) {
    return fmt::format("rank {}", last);
  }
  constexpr std::size_t shown = 4;
  bool const in_a_row = last - job_ranks.front() == static_cast<int>(count) - 1;
  if (in_a_row && count > 2) {
    return fmt::format("ranks {} to {}", job_ranks.front(), last);
  }
  if (count <= shown) {
    job_ranks.pop_back();
    return fmt::format("ranks {} and {}", fmt::join(job_ranks, ", "), last);
  }
  job_ranks.resize(shown - 1);
  return fmt::format("ranks {}, ..., {}", fmt::join(job_ranks, ", "), last);
}

std::string describe_rank(std::string const& name, std::vector<int> const& job_ranks, int rank, int job_world) {
  auto const job_rank = job_ranks[static_cast<std::size_t>(rank)];
  return static_cast<int>(job_ranks.size()) == job_world
             ? fmt::format("rank {}", job_rank)
             : fmt::format("rank {} (of '{}': {})", job_rank, name, describe_ranks(job_ranks));
}

std::string describe_last(FlightRecorder const& recorder) {
  auto const records = recorder.snapshot();
  // The oldest unfinished operation is what blocks the rank; another stream may have finished something later.
  auto const unfinished = [](Record const& each) { return each.started_ns != 0 && each.finished_ns == 0; };
  auto const told = std::ranges::max_element(records, {}, [&](Record const& each) {
    return unfinished(each) ? std::pair{true, -each.started_ns} : std::pair{false, each.started_ns};
  });
  if (told == records.end() || told->started_ns == 0) {
    return "started nothing yet";
  }
  bool const waits = unfinished(*told);
  std::string words = purpose_and_unit(told->purpose, told->unit);
  if (told->count > 0) {
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", told->count, name_of(told->dtype));
  }
  std::string const where = told->communicator[0] == '\0' ? std::string{}
                                                          : fmt::format(", transaction {} of communicator '{}',",
                                                                        told->sequence, told->communicator);
  auto const age = std::chrono::nanoseconds{std::max<std::int64_t>(0, recorder.now_ns() - told->started_ns)};
  return fmt::format("{} {} ({}){} {} ago and {}", waits ? "started" : "last started", told->what, words, where,
                     describe(age), waits ? "has not finished it" : "finished it");
}

std::string describe_missing(std::string const& who, std::chrono::nanoseconds waited, std::string const& where,
                             std::span<AwaitedRank const> ranks, std::string_view if_none) {
  std::string missing;
  std::string here;
  for (auto const& each : ranks) {
    auto& list = each.here ? here : missing;
    list += fmt::format("{}{}, which {}", list.empty() ? "" : "; ", each.who, each.words);
  }
  return fmt::format("{} waited {} in {}; missing: {}", who, describe(waited), where,
                     !missing.empty() ? missing
                     : here.empty()   ? std::string{if_none}
                                      : fmt::format("{}; here are {}", if_none, here));
}

}  // namespace zeroth::comm
