// SPDX-License-Identifier: Apache-2.0
/// Sorts the positions of a micro-batch by token.
#pragma once
#include <cstdint>
#include <span>

namespace gpt {

/// Writes to `order` the positions in `inputs` sorted by token, ascending for each token, and to `first` [vocabulary +
/// 1] the start of each token's positions. The gradient of the token embedding is summed in this order.
void sort_by_token(std::span<std::uint8_t const> inputs, std::span<std::int32_t> order, std::span<std::int32_t> first);

}  // namespace gpt
