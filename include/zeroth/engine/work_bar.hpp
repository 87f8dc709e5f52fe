// SPDX-License-Identifier: Apache-2.0
/// A progress bar for long work.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "zeroth/core/clock.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

/// "verify  45 %  1.53 of 3.40 GiB  [#####.....]", with at most `columns` letters: the bar uses the remaining width,
/// and is left out if that is too small.
[[nodiscard]] ZEROTH_EXPORT std::string work_text(std::string const& what, std::int64_t done, std::int64_t all,
                                                  int columns);

/// Shows progress on standard error, if that is a terminal and the work takes more than two seconds; the destructor
/// clears it. For one thread.
class ZEROTH_EXPORT WorkBar {
 public:
  /// `all`: total bytes; 0 until set() says it.
  explicit WorkBar(std::string what, std::int64_t all = 0,
                   std::chrono::milliseconds patience = std::chrono::seconds{2});
  ~WorkBar();
  WorkBar(WorkBar const&) = delete;
  WorkBar& operator=(WorkBar const&) = delete;
  /// Adds finished bytes. Draws at most five times per second.
  void add(std::int64_t bytes) { set(done_ + bytes, all_); }
  /// `done` of `all` bytes are finished: what RestoreOptions::progress is called with.
  void set(std::int64_t done, std::int64_t all);

 private:
  std::string what_;
  std::int64_t done_ = 0, all_;
  Clock::time_point next_;
  bool is_drawn_ = false;
};

}  // namespace zeroth
