// SPDX-License-Identifier: Apache-2.0
/// How often what failed is started again, and how soon.
#pragma once
#include <chrono>
#include <optional>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Restarts in a row that brought no progress are counted, and each waits twice as long as the one before: 1 s, 2 s,
/// 4 s, up to 30 s. Progress begins anew. launch() and `zeroth run` have one each.
class ZEROTH_EXPORT RestartBudget {
 public:
  explicit RestartBudget(int most) noexcept : most_{most} {}  ///< Restarts without progress; 0: none at all.
  /// After a failure: how long to wait before the next start; empty if there is none left. `progress`: some was made
  /// since the last start.
  [[nodiscard]] std::optional<std::chrono::seconds> next(bool progress) noexcept;
  [[nodiscard]] int used() const noexcept { return used_; }  ///< Of `most`, the one that next() gave with them.
  [[nodiscard]] int most() const noexcept { return most_; }  ///< As it was made.

 private:
  int most_;
  int used_ = 0;
};

}  // namespace zeroth
