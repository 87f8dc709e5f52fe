// SPDX-License-Identifier: Apache-2.0
#include "comm/spinning.hpp"

#include <cstdlib>
#include <string_view>
#include <thread>

namespace zeroth::comm {

bool may_spin(int ranks) noexcept {
  static bool const never = [] {
    char const* const value = std::getenv(spin_variable);
    return value != nullptr && value == std::string_view{spin_never};
  }();
  return !never && static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency();
}

}  // namespace zeroth::comm
