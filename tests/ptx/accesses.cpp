// SPDX-License-Identifier: Apache-2.0
#include "accesses.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>

#include "support/ptx/registered.hpp"

namespace zeroth::testing::ptx {
namespace {

/// A kernel's readable name, shortened: "MoveAndSum<bf16, bf16>".
std::string short_name(std::string text) {
  auto const begin = text.find('<');
  auto depth = 0;
  for (auto at = begin; at < text.size(); ++at) {
    depth += text[at] == '<' ? 1 : text[at] == '>' ? -1 : 0;
    if (depth == 0) {
      text = text.substr(begin + 1, at - begin - 1);
      break;
    }
  }
  for (std::string const space : {"zeroth::cuda::", "gpt::gpu::", "zeroth::optim::", "zeroth::"}) {
    for (auto at = text.find(space); at != std::string::npos; at = text.find(space)) {
      text.erase(at, space.size());
    }
  }
  for (auto at = text.find(" >"); at != std::string::npos; at = text.find(" >")) {
    text.erase(at, 1);
  }
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

/// Passes over banks, and sectors, relative to their minimum.
using Ratios = std::array<double, 2>;

std::map<std::string, Ratios> ratios() {
  std::map<std::string, Ratios> all;
  for (auto const& [name, taken] : traffic()) {
    all[short_name(name)] = {taken.banks(), taken.global()};
  }
  return all;
}

std::vector<std::string> cells_of(std::string const& line) {
  std::vector<std::string> cells;
  for (auto at = line.find('|'); at != std::string::npos && at + 1 < line.size();) {
    auto const end = line.find('|', at + 1);
    auto const cell = line.substr(at + 1, end - at - 1);
    auto const first = cell.find_first_not_of(" `"), last = cell.find_last_not_of(" `");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    at = end;
  }
  return cells;
}

/// The page's rows, with the two columns of an architecture.
std::map<std::string, Ratios> read_page(std::filesystem::path const& page, std::string const& architecture) {
  std::ifstream in{page};
  std::map<std::string, Ratios> rows;
  std::optional<std::size_t> column;
  for (std::string line; std::getline(in, line);) {
    auto const cells = cells_of(line);
    if (auto const head = std::find(cells.begin(), cells.end(), architecture + " banks"); head != cells.end()) {
      column = static_cast<std::size_t>(head - cells.begin());
    } else if (column && cells.size() > *column + 1 && !cells[0].starts_with('-')) {
      auto const number = [](std::string const& cell) { return cell.empty() ? 0 : std::stod(cell); };
      rows[cells[0]] = {number(cells[*column]), number(cells[*column + 1])};
    }
  }
  if (rows.empty()) {
    throw std::runtime_error{page.string() + " has no rows for " + architecture};
  }
  return rows;
}

std::string show(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", ratio);
  return text.data();
}

}  // namespace

void write_accesses(std::filesystem::path const& file) {
  std::ofstream out{file};
  for (auto const& [name, taken] : ratios()) {
    out << name << '\t' << show(taken[0]) << '\t' << show(taken[1]) << '\n';
  }
  if (!out.flush()) {
    throw std::runtime_error{file.string() + " cannot be written"};
  }
}

std::vector<std::string> slower_than(std::filesystem::path const& page, std::string const& architecture) {
  constexpr std::array what{"passes over the banks of shared memory", "sectors of global memory"};
  constexpr double tolerance = 1.1;
  auto const rows = read_page(page, architecture);
  std::vector<std::string> slower;
  for (auto const& [name, taken] : ratios()) {
    auto const row = rows.find(name);
    if (row == rows.end()) {
      slower.push_back(name + " is not in " + page.string() + ": scripts/access_table.py --write makes it again");
      continue;
    }
    for (std::size_t i = 0; i < what.size(); ++i) {
      if (taken[i] > tolerance * std::max(row->second[i], 1.0)) {
        slower.push_back(name + " takes " + show(taken[i]) + " times the least " + what[i] + ", and " +
                         show(row->second[i]) + " in " + page.string());
      }
    }
  }
  return slower;
}

}  // namespace zeroth::testing::ptx
