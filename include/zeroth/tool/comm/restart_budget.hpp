// SPDX-License-Identifier: Apache-2.0
/// How many times a failed job is restarted, and after which delays.
#pragma once
#include <chrono>
#include <optional>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Counts consecutive restarts without progress. Each delay is twice the one before: 1 s, 2 s, 4 s, up to 30 s.
/// Progress resets the count. launch() and `zeroth run` have one each.
class ZEROTH_EXPORT RestartBudget {
 public:
  explicit RestartBudget(int most) noexcept : most_{most} {}  ///< Limit on restarts without progress; 0 for none.
  /// Call it after a failure: returns the delay before the next start, or nullopt if no restart is left. `progress`:
  /// whether there was any since the last start.
  [[nodiscard]] std::optional<std::chrono::seconds> next(bool progress) noexcept;
  /// Restarts used since the last progress, including the one that next() just granted.
  [[nodiscard]] int used() const noexcept { return used_; }
  [[nodiscard]] int most() const noexcept { return most_; }  ///< The limit passed to the constructor.

 private:
  int most_;
  int used_ = 0;
};

}  // namespace zeroth
