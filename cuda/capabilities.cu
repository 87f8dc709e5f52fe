// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

std::span<int const> capabilities() {
  static constexpr auto built_for = [] {
    std::array list{__CUDA_ARCH_LIST__};  // nvcc's list: 100 * major + 10 * minor
    for (int& each : list) {
      each /= 10;
    }
    return list;
  }();
  return built_for;
}

}  // namespace zeroth::cuda
