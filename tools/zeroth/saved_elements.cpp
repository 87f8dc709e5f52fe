// SPDX-License-Identifier: Apache-2.0
#include "saved_elements.hpp"

#include <cstring>

namespace zeroth::tools {
namespace {

template <class T>
float value(std::span<std::byte const> elements, std::size_t i) noexcept {
  T element{};
  std::memcpy(&element, elements.data() + i * sizeof(T), sizeof(T));
  return to_float(element);
}

}  // namespace

float value_at(std::span<std::byte const> elements, Dtype dtype, std::size_t i) noexcept {
  switch (dtype) {
    case Dtype::bf16: return value<bf16>(elements, i);
    case Dtype::fp16: return value<fp16>(elements, i);
    default: return value<float>(elements, i);
  }
}

}  // namespace zeroth::tools
