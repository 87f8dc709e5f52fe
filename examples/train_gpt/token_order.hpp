// SPDX-License-Identifier: Apache-2.0
/// Where each token is in a micro-batch.
#pragma once
#include <cstdint>
#include <span>

namespace gpt {

/// Writes to `order` where each token is in `inputs`, those of token 0 first and each token's in order; to `first`
/// [vocabulary + 1] where each token's begin. What the gradient of the token embedding is added up by.
void sort_by_token(std::span<std::uint8_t const> inputs, std::span<std::int32_t> order, std::span<std::int32_t> first);

}  // namespace gpt
