// SPDX-License-Identifier: Apache-2.0
/// The architecture shared by Llama, Mistral and Qwen, with Hugging Face's names.
#pragma once
#include <cstdint>

#include "model_builder.hpp"

namespace zeroth::tools {

struct LlamaShape {
  std::int64_t layers = 0, channels = 0, hidden = 0, vocabulary = 0;
  std::int64_t heads = 0, key_value_heads = 0, head_channels = 0;
  bool query_bias = false;   ///< For query, key and value.
  bool output_bias = false;  ///< For attention's output.
  bool mlp_bias = false;
  bool query_norm = false;  ///< Queries and keys are normalised per head.
  bool tied_head = false;
};

/// Units: the embedding, each block, the final norm with the head.
void add_llama(ModelBuilder& build, LlamaShape const& shape);

}  // namespace zeroth::tools
