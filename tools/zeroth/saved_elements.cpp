// SPDX-License-Identifier: Apache-2.0
#include "saved_elements.hpp"

#include <algorithm>
#include <cstring>

namespace zeroth::tools {
namespace {

template <class T>
float element(std::span<std::byte const> elements, std::size_t i) noexcept {
  T one{};
  std::memcpy(&one, elements.data() + i * sizeof(T), sizeof(T));
  return to_float(one);
}

}  // namespace

std::int64_t bytes_of_states(checkpoint::Contents const& contents) noexcept {
  double bytes = 0;  // double, because a forged record may have any sizes
  for (auto const& group : contents.groups) {
    bytes += static_cast<double>(group.places) * static_cast<double>(group.state_bytes);
  }
  constexpr double most = 0x1p60;
  return static_cast<std::int64_t>(std::clamp(bytes, 0.0, most));
}

float value_at(std::span<std::byte const> elements, Dtype dtype, std::size_t i) noexcept {
  switch (dtype) {
    case Dtype::bf16: return element<bf16>(elements, i);
    case Dtype::fp16: return element<fp16>(elements, i);
    default: return element<float>(elements, i);
  }
}

}  // namespace zeroth::tools
