// SPDX-License-Identifier: Apache-2.0
/// Problems of a JSON file, collected so that all are reported at once.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::config {

/// One problem.
struct Problem {
  std::string path;  ///< "zero_optimization.stage"; empty for the text as a whole.
  int line = 0;      ///< From 1; 0 if the key is not in the file.
  std::string text;  ///< The problem, and the allowed values.
};

/// A list of problems. Keeps the text of the first `most`, and counts the others.
class ZEROTH_EXPORT Problems {
 public:
  static constexpr std::size_t most = 20;  ///< Number of problems kept with their text.

  Problems() = default;  ///< An empty list.
  /// A list of these.
  Problems(std::initializer_list<Problem> problems) : told_{problems}, count_{problems.size()} {}

  void push_back(Problem problem);  ///< Adds one.
  /// Counts a problem without making its text, which would not be kept.
  void count_one() noexcept { ++count_; }
  /// Whether no further text would be kept.
  [[nodiscard]] bool full() const noexcept { return count_ >= most; }
  /// Whether there is no problem.
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Whether one is about the text as a whole; then nothing was read.
  [[nodiscard]] bool about_the_whole() const noexcept;

  /// "SOURCE: 2 problems" and a line for each, in file order; missing keys come last.
  [[nodiscard]] std::string text(std::string_view source) const;

 private:
  std::vector<Problem> told_;
  std::size_t count_ = 0;
};

/// Throws one ConfigError with all problems; returns if there are none.
ZEROTH_EXPORT void throw_if_any(std::string_view source, Problems const& problems);

}  // namespace zeroth::config
