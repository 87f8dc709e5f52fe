// SPDX-License-Identifier: Apache-2.0
#include "engine/communication.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace zeroth::engine {

std::string communication_table(shard::CallLog const& calls, SpanSums const& times) {
  std::size_t width = 4;
  for (auto const& call : calls.entries()) {
    width = std::max(width, call.unit.size());
  }
  auto table = fmt::format("  {:<8} {:<{}} {:<14} {:>8} {:>12} {:>10} {:>9} {:>9}", "what", "unit", width, "collective",
                           "count", "MB each", "ms each", "GB/s", "bus GB/s");
  std::vector<std::pair<std::string_view, std::string_view>> timed;
  for (auto const& [what, unit, operation, count, bytes, sent] : calls.entries()) {
    table += fmt::format("\n  {:<8} {:<{}} {:<14} {:>8} {:>12.6g}", what, unit, width, comm::name_of(operation), count,
                         static_cast<double>(bytes) / static_cast<double>(count) / 1e6);
    bool const is_first = std::ranges::find(timed, std::pair{what, unit}) == timed.end();
    timed.emplace_back(what, unit);
    if (auto const time = times.of(what, unit); is_first && time.count > 0 && time.ms > 0) {
      // Divides by the number of times, not of calls: a program that traces the device itself keeps its spans.
      auto const ms = time.ms / static_cast<double>(time.count);
      auto const per_second = [&, number = count](double all) { return all / static_cast<double>(number) / ms / 1e6; };
      table +=
          fmt::format(" {:>10.3f} {:>9.3f} {:>9.3f}", ms, per_second(static_cast<double>(bytes)), per_second(sent));
    }
  }
  return table;
}

}  // namespace zeroth::engine
