// SPDX-License-Identifier: Apache-2.0
#include "engine/span_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace zeroth::engine {

void SpanSums::add(std::vector<Span> const& spans) {
  for (auto const& span : spans) {
    auto& sum = sums_[{span.stream, span.what, span.unit}];
    sum.ms += (span.end_us - span.begin_us) / 1e3;
    ++sum.count;
  }
}

SpanSums::Sum SpanSums::of(std::string_view what, std::string_view unit) const {
  Sum total;
  for (auto const& [key, sum] : sums_) {
    if (key.what == what && key.unit == unit) {
      total.ms += sum.ms;
      total.count += sum.count;
    }
  }
  return total;
}

std::string breakdown(SpanSums const& sums, std::int64_t steps) {
  std::map<std::pair<std::string, std::string>, SpanSums::Sum> of_units;
  for (auto const& [key, sum] : sums.all()) {
    auto& row = of_units[{key.stream, key.what}];
    row.ms += sum.ms;
    row.count += sum.count;
  }
  std::vector<std::pair<std::pair<std::string, std::string>, SpanSums::Sum>> rows{of_units.begin(), of_units.end()};
  std::ranges::stable_sort(rows, [](auto const& a, auto const& b) {
    return std::pair{a.first.first != "compute", -a.second.ms} < std::pair{b.first.first != "compute", -b.second.ms};
  });
  std::string table = "  stream   what       ms a step  spans a step";
  for (auto const& [name, sum] : rows) {
    table +=
        fmt::format("\n  {:<8} {:<10} {:>9.3f} {:>13.1f}", name.first, name.second, sum.ms / static_cast<double>(steps),
                    static_cast<double>(sum.count) / static_cast<double>(steps));
  }
  return table;
}

}  // namespace zeroth::engine
