// SPDX-License-Identifier: Apache-2.0
/// A progress bar for long work.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include <zeroth/core/clock.hpp>

namespace zeroth::tools {

/// "verify  45 %  1.53 of 3.40 GiB  [#####.....]", with at most `columns` letters: the bar uses the remaining width,
/// and is left out if that is too small.
[[nodiscard]] std::string work_text(std::string const& what, std::int64_t done, std::int64_t all, int columns);

/// Shows progress on standard error, if that is a terminal and the work takes more than two seconds; the destructor
/// clears it. For one thread.
class WorkBar {
 public:
  /// `all`: total bytes.
  WorkBar(std::string what, std::int64_t all, std::chrono::milliseconds patience = std::chrono::seconds{2});
  ~WorkBar();
  WorkBar(WorkBar const&) = delete;
  WorkBar& operator=(WorkBar const&) = delete;
  /// Adds finished bytes. Draws at most five times per second.
  void add(std::int64_t bytes);

 private:
  std::string what_;
  std::int64_t done_ = 0, all_;
  Clock::time_point next_;
  bool is_drawn_ = false;
};

}  // namespace zeroth::tools
