// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/config/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::config {

void Problems::push_back(Problem problem) {
  if (!full() || problem.path.empty()) {  // an unreadable file is always reported
    told_.push_back(std::move(problem));
  }
  count_one();
}

bool Problems::about_the_whole() const noexcept {
  return std::ranges::any_of(told_, [](Problem const& problem) { return problem.path.empty(); });
}

std::string Problems::text(std::string_view source) const {
  auto sorted = told_;
  std::ranges::stable_sort(sorted, {}, [](Problem const& problem) {
    return problem.line > 0 ? problem.line : std::numeric_limits<int>::max();
  });
  auto message = fmt::format("{}: {} problem{}", source, count_, count_ == 1 ? "" : "s");
  for (auto const& problem : sorted) {
    auto const where = problem.line > 0 ? fmt::format(" (line {})", problem.line) : std::string{};
    message += fmt::format("\n  {}{}{}{}", problem.path, where, problem.path.empty() ? "" : ": ", problem.text);
  }
  if (count_ > sorted.size()) {
    message += fmt::format("\n  and {} more", count_ - sorted.size());
  }
  return message;
}

void throw_if_any(std::string_view source, Problems const& problems) {
  if (!problems.empty()) {
    throw ConfigError{problems.text(source)};
  }
}

}  // namespace zeroth::config
