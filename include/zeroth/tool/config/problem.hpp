// SPDX-License-Identifier: Apache-2.0
/// What is wrong with a JSON file, collected so that all of it is said at once.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::config {

/// One of them.
struct Problem {
  std::string path;  ///< "zero_optimization.stage"; empty for the text as a whole.
  int line = 0;      ///< From 1; 0 where the file has no such key.
  std::string text;  ///< What is wrong, and what is allowed.
};

/// Of more than `most` only the first are told; the others are counted.
class ZEROTH_EXPORT Problems {
 public:
  static constexpr std::size_t most = 20;  ///< As above.

  Problems() = default;  ///< None.
  /// These.
  Problems(std::initializer_list<Problem> problems) : told_{problems}, count_{problems.size()} {}

  void push_back(Problem problem);  ///< One more.
  /// What a text would be made for in vain.
  void count_one() noexcept { ++count_; }
  /// Are as many known as are told?
  [[nodiscard]] bool full() const noexcept { return count_ >= most; }
  /// Is nothing wrong?
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Whether one is about the text as a whole: then nothing was read.
  [[nodiscard]] bool about_the_whole() const noexcept;

  /// "SOURCE: 2 problems" and a line for each, in the order of the file; what it lacks comes last.
  [[nodiscard]] std::string text(std::string_view source) const;

 private:
  std::vector<Problem> told_;
  std::size_t count_ = 0;
};

/// Throws one ConfigError with all of them; returns if there are none.
ZEROTH_EXPORT void throw_if_any(std::string_view source, Problems const& problems);

}  // namespace zeroth::config
