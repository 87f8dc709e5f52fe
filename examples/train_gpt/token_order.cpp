// SPDX-License-Identifier: Apache-2.0
#include "token_order.hpp"

#include <algorithm>
#include <cstddef>

namespace gpt {

void sort_by_token(std::span<std::uint8_t const> inputs, std::span<std::int32_t> order, std::span<std::int32_t> first) {
  std::ranges::fill(first, 0);
  for (auto const token : inputs) {
    ++first[token + std::size_t{1}];
  }
  for (std::size_t t = 1; t < first.size(); ++t) {
    first[t] += first[t - 1];
  }
  // Each token's start advances to its end, which is the start of the next.
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    order[static_cast<std::size_t>(first[inputs[i]]++)] = static_cast<std::int32_t>(i);
  }
  std::shift_right(first.begin(), first.end(), 1);
  first.front() = 0;
}

}  // namespace gpt
