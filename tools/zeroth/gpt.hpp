// SPDX-License-Identifier: Apache-2.0
/// GPT-2's architecture at any size, with Hugging Face's names.
#pragma once
#include <cstdint>

#include "model_builder.hpp"

namespace zeroth::tools {

struct GptShape {
  std::int64_t layers = 0, channels = 0, context = 0, vocabulary = 0;
  std::int64_t hidden = 0;  ///< Width of the MLP.
  bool tied_head = true;
};

/// Units: the embedding, each block, the final norm with the head.
void add_gpt(ModelBuilder& build, GptShape const& shape);

}  // namespace zeroth::tools
