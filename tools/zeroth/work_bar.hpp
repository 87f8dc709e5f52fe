// SPDX-License-Identifier: Apache-2.0
/// How much is done of a work that takes its time.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include <zeroth/core/clock.hpp>

namespace zeroth::tools {

/// "verify  45 %  1.53 of 3.40 GiB  [#####.....]", with no more than `columns` letters: the bar takes what is left, and
/// is left out where that is too little.
[[nodiscard]] std::string work_text(std::string const& what, std::int64_t done, std::int64_t all, int columns);

/// On standard error, where that is a terminal and the work takes more than two seconds; gone when this ends. For one
/// thread.
class WorkBar {
 public:
  /// Of `all` bytes.
  WorkBar(std::string what, std::int64_t all, std::chrono::milliseconds patience = std::chrono::seconds{2});
  ~WorkBar();
  WorkBar(WorkBar const&) = delete;
  WorkBar& operator=(WorkBar const&) = delete;
  /// So many more are done. Draws five times in a second at most.
  void add(std::int64_t bytes);

 private:
  std::string what_;
  std::int64_t done_ = 0, all_;
  Clock::time_point next_;
  bool is_drawn_ = false;
};

}  // namespace zeroth::tools
