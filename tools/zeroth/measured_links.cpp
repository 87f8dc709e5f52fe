// SPDX-License-Identifier: Apache-2.0
#include "measured_links.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/input_file.hpp>

#include "json_file.hpp"

namespace zeroth::tools {
namespace {

/// A collective at one size.
struct Measured {
  std::int64_t ranks = 0;
  double bytes = 0;  ///< Received by each rank.
  double seconds = 0;
};

std::vector<Measured> read_lines(std::filesystem::path const& file) {
  std::string text;
  try {
    text = read_text(file);
  } catch (Unreadable const& error) {
    throw ConfigError{fmt::format("{}: {}", file.string(), error.what())};
  }
  std::vector<Measured> all;
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    auto const end = std::min(text.find('\n', begin), text.size());
    auto const line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) {
      continue;
    }
    std::filesystem::path const place = fmt::format("{}, line {}", file.string(), number);
    auto const object = parse_json(place, line);
    JsonObject const fields{place, object};
    if (auto const name = fields.text("benchmark"); name != "all_gather" && name != "reduce_scatter") {
      fields.refuse("benchmark", "all_gather and reduce_scatter, as bench_collectives prints them");
    }
    Measured one{.ranks = fields.extent("ranks")};
    one.bytes = static_cast<double>(fields.extent("bytes")) * static_cast<double>(one.ranks - 1) /
                static_cast<double>(one.ranks);
    one.seconds = one.bytes / (1e9 * fields.positive("bus_gb_per_s"));
    all.push_back(one);
  }
  return all;
}

/// Fits seconds per start and per byte.
std::pair<double, double> fit(std::vector<Measured> const& lines) {
  double xx = 0, xy = 0, yy = 0, x = 0, y = 0;
  for (auto const& each : lines) {
    double const start = 1 / each.seconds;
    double const bytes = each.bytes / each.seconds;
    xx += start * start, xy += start * bytes, yy += bytes * bytes, x += start, y += bytes;
  }
  double const determinant = xx * yy - xy * xy;
  double const of_start = determinant > 0 ? (x * yy - y * xy) / determinant : 0;
  return of_start > 0 ? std::pair{of_start, (y * xx - x * xy) / determinant} : std::pair{0.0, y / yy};
}

}  // namespace

simulate::Machine with_measured_links(simulate::Machine machine, std::filesystem::path const& file, int ranks) {
  auto lines = read_lines(file);
  std::set<std::int64_t> there;
  std::transform(lines.begin(), lines.end(), std::inserter(there, there.end()),
                 [](Measured const& each) { return each.ranks; });
  std::erase_if(lines, [ranks](Measured const& each) { return each.ranks != ranks; });
  if (lines.size() < 2) {
    throw ConfigError{fmt::format(
        "{}: has {} lines of {} ranks, among lines of [{}] ranks; at least two of different sizes are needed",
        file.string(), lines.size(), ranks, fmt::join(there, ", "))};
  }
  auto const [start, of_byte] = fit(lines);
  if (!(of_byte > 0)) {
    throw ConfigError{
        fmt::format("{}: {} ranks take as long for more bytes; measure larger sizes", file.string(), ranks)};
  }
  machine.name += fmt::format(", links of {}", file.filename().string());
  machine.node_bytes_per_s = machine.network_bytes_per_s = 1 / of_byte;
  // Counted per step, because an all-reduce pays the start twice.
  double const step_us = 1e6 * start / (ranks - 1);
  machine.ring = {{.start_us = 0, .step_us = step_us, .network_step_us = step_us, .bandwidth_fraction = 1}};
  machine.tree.clear();
  machine.copy_engine_gathers = false;
  return machine;
}

}  // namespace zeroth::tools
