#include "config/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "zeroth/core/error.hpp"

namespace zeroth::config {

void throw_if_any(std::string_view source, Problems problems) {
  if (problems.empty()) {
    return;
  }
  // In the order of the file; what it lacks comes last.
  std::ranges::stable_sort(problems, {}, [](Problem const& problem) {
    return problem.line > 0 ? problem.line : std::numeric_limits<int>::max();
  });
  auto message = fmt::format("{}: {} problem{}", source, problems.size(), problems.size() == 1 ? "" : "s");
  for (auto const& problem : problems) {
    auto const where = problem.line > 0 ? fmt::format(" (line {})", problem.line) : std::string{};
    message += fmt::format("\n  {}{}{}{}", problem.path, where, problem.path.empty() ? "" : ": ", problem.text);
  }
  throw ConfigError{message};
}

}  // namespace zeroth::config
