// SPDX-License-Identifier: Apache-2.0
#include "gpt.hpp"

#include <fmt/format.h>

namespace zeroth::tools {
namespace {

void add_norm(ModelBuilder& build, std::string const& name, std::int64_t channels) {
  build.vector(name + ".weight", channels);
  build.vector(name + ".bias", channels);
}

void add_linear(ModelBuilder& build, std::string const& name, std::int64_t inputs, std::int64_t outputs) {
  build.matrix(name + ".weight", inputs, outputs);
  build.vector(name + ".bias", outputs);
}

}  // namespace

void add_gpt(ModelBuilder& build, GptShape const& shape) {
  auto const channels = shape.channels;
  build.unit("transformer.embedding");
  auto const tokens = build.table("transformer.wte.weight", shape.vocabulary, channels);
  build.table("transformer.wpe.weight", shape.context, channels);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    auto const block = fmt::format("transformer.h.{}", layer);
    build.unit(block, channels);
    add_norm(build, block + ".ln_1", channels);
    add_linear(build, block + ".attn.c_attn", channels, 3 * channels);
    add_linear(build, block + ".attn.c_proj", channels, channels);
    add_norm(build, block + ".ln_2", channels);
    add_linear(build, block + ".mlp.c_fc", channels, shape.hidden);
    add_linear(build, block + ".mlp.c_proj", shape.hidden, channels);
    build.last_product();
    build.attention(channels);
  }
  build.unit("transformer.head", channels);
  add_norm(build, "transformer.ln_f", channels);
  if (shape.tied_head) {
    build.tie(tokens);
  } else {
    build.matrix("lm_head.weight", shape.vocabulary, channels);
  }
  build.last_product();
}

}  // namespace zeroth::tools
