// SPDX-License-Identifier: Apache-2.0
#include "llama.hpp"

#include <fmt/format.h>

namespace zeroth::tools {
namespace {

/// Tensor ranks divide its outputs, unless `options` say that they share it.
void add_first(ModelBuilder& build, std::string const& name, std::int64_t inputs, std::int64_t outputs, bool bias,
               ParamOptions const& options = cut_along(0)) {
  build.hidden_matrix(name + ".weight", outputs, inputs, options);
  build.first_product();
  if (bias) {
    build.vector(name + ".bias", outputs, options);
  }
}

/// The second matrix of a pair, whose inputs tensor ranks divide.
void add_second(ModelBuilder& build, std::string const& name, std::int64_t inputs, std::int64_t outputs, bool bias) {
  build.hidden_matrix(name + ".weight", outputs, inputs, cut_along(1));
  if (bias) {
    build.vector(name + ".bias", outputs);
  }
}

void add_attention(ModelBuilder& build, std::string const& name, LlamaShape const& s) {
  build.expect_divided_heads(s.heads);
  auto const queries = s.heads * s.head_channels;
  auto const keys = s.key_value_heads * s.head_channels;
  // If there are fewer heads of keys and values than ranks, several ranks have the same head.
  auto const of_keys = s.key_value_heads % build.tensor_ranks() == 0 ? cut_along(0) : ParamOptions{.partial = true};
  add_first(build, name + ".q_proj", s.channels, queries, s.query_bias);
  add_first(build, name + ".k_proj", s.channels, keys, s.query_bias, of_keys);
  add_first(build, name + ".v_proj", s.channels, keys, s.query_bias, of_keys);
  add_second(build, name + ".o_proj", queries, s.channels, s.output_bias);
  if (s.query_norm) {  // for the heads of a rank
    build.vector(name + ".q_norm.weight", s.head_channels, {.partial = true});
    build.vector(name + ".k_norm.weight", s.head_channels, {.partial = true});
  }
  build.attention(queries);
}

void add_mlp(ModelBuilder& build, std::string const& name, LlamaShape const& s) {
  add_first(build, name + ".gate_proj", s.channels, s.hidden, s.mlp_bias);
  add_first(build, name + ".up_proj", s.channels, s.hidden, s.mlp_bias);
  add_second(build, name + ".down_proj", s.hidden, s.channels, s.mlp_bias);
  build.last_product();
}

}  // namespace

void add_llama(ModelBuilder& build, LlamaShape const& s) {
  build.unit("model.embedding");
  ParamOptions const of_vocabulary{.cut = cut_of_vocabulary({0, build.tensor_ranks()})};
  auto const tokens = build.table("model.embed_tokens.weight", s.vocabulary, s.channels, of_vocabulary);
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    auto const block = fmt::format("model.layers.{}", layer);
    build.unit(block, s.channels, 2);  // sums after attention and the MLP
    build.vector(block + ".input_layernorm.weight", s.channels);
    add_attention(build, block + ".self_attn", s);
    build.vector(block + ".post_attention_layernorm.weight", s.channels);
    add_mlp(build, block + ".mlp", s);
  }
  build.unit("model.head", s.channels, 1);
  build.vector("model.norm.weight", s.channels);
  if (s.tied_head) {
    build.tie(tokens);
  } else {
    build.matrix("lm_head.weight", s.vocabulary, s.channels, of_vocabulary);
  }
  build.first_product();
  build.last_product();
}

}  // namespace zeroth::tools
