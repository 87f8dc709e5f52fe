// SPDX-License-Identifier: Apache-2.0
#include "llama.hpp"

#include <fmt/format.h>

namespace zeroth::tools {
namespace {

void add_linear(ModelBuilder& build, std::string const& name, std::int64_t inputs, std::int64_t outputs, bool bias) {
  build.matrix(name + ".weight", outputs, inputs);
  if (bias) {
    build.vector(name + ".bias", outputs);
  }
}

void add_attention(ModelBuilder& build, std::string const& name, LlamaShape const& s) {
  auto const queries = s.heads * s.head_channels;
  auto const keys = s.key_value_heads * s.head_channels;
  add_linear(build, name + ".q_proj", s.channels, queries, s.query_bias);
  add_linear(build, name + ".k_proj", s.channels, keys, s.query_bias);
  add_linear(build, name + ".v_proj", s.channels, keys, s.query_bias);
  add_linear(build, name + ".o_proj", queries, s.channels, s.output_bias);
  if (s.query_norm) {
    build.vector(name + ".q_norm.weight", s.head_channels);
    build.vector(name + ".k_norm.weight", s.head_channels);
  }
  build.attention(queries);
}

void add_mlp(ModelBuilder& build, std::string const& name, LlamaShape const& s) {
  add_linear(build, name + ".gate_proj", s.channels, s.hidden, s.mlp_bias);
  add_linear(build, name + ".up_proj", s.channels, s.hidden, s.mlp_bias);
  add_linear(build, name + ".down_proj", s.hidden, s.channels, s.mlp_bias);
  build.last_product();
}

}  // namespace

void add_llama(ModelBuilder& build, LlamaShape const& s) {
  build.unit("model.embedding");
  auto const tokens = build.table("model.embed_tokens.weight", s.vocabulary, s.channels);
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    auto const block = fmt::format("model.layers.{}", layer);
    build.unit(block, s.channels);
    build.vector(block + ".input_layernorm.weight", s.channels);
    add_attention(build, block + ".self_attn", s);
    build.vector(block + ".post_attention_layernorm.weight", s.channels);
    add_mlp(build, block + ".mlp", s);
  }
  build.unit("model.head", s.channels);
  build.vector("model.norm.weight", s.channels);
  if (s.tied_head) {
    build.tie(tokens);
  } else {
    build.matrix("lm_head.weight", s.vocabulary, s.channels);
  }
  build.last_product();
}

}  // namespace zeroth::tools
