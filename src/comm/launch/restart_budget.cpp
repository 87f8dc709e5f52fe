// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/comm/restart_budget.hpp"

#include <algorithm>

namespace zeroth {

std::optional<std::chrono::seconds> RestartBudget::next(bool progress) noexcept {
  constexpr std::chrono::seconds longest{30};
  constexpr int most_doublings = 5;  // which exceeds the longest pause
  if (progress) {
    used_ = 0;
  }
  if (used_ >= most_) {
    return std::nullopt;
  }
  return std::min(longest, std::chrono::seconds{1 << std::min(used_++, most_doublings)});
}

}  // namespace zeroth
