// SPDX-License-Identifier: Apache-2.0
#include "saved_elements.hpp"

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

float value_at(std::span<std::byte const> elements, Dtype dtype, std::size_t i) noexcept {
  switch (dtype) {
    case Dtype::bf16: return element<bf16>(elements, i);
    case Dtype::fp16: return element<fp16>(elements, i);
    default: return element<float>(elements, i);
  }
}

}  // namespace zeroth::tools
