// SPDX-License-Identifier: Apache-2.0
#include "gpt.hpp"

#include <fmt/format.h>

namespace zeroth::tools {
namespace {

void add_norm(ModelBuilder& build, std::string const& name, std::int64_t channels) {
  build.vector(name + ".weight", channels);
  build.vector(name + ".bias", channels);
}

/// Tensor ranks divide its columns, those of each of `sections`.
void add_first(ModelBuilder& build, std::string const& name, std::int64_t inputs, std::int64_t outputs,
               std::vector<std::int64_t> const& sections = {}) {
  build.hidden_matrix(name + ".weight", inputs, outputs, cut_along(1, sections));
  build.first_product();
  build.vector(name + ".bias", outputs, cut_along(0, sections));
}

/// The second matrix of a pair, whose rows tensor ranks divide.
void add_second(ModelBuilder& build, std::string const& name, std::int64_t inputs, std::int64_t outputs) {
  build.hidden_matrix(name + ".weight", inputs, outputs, cut_along(0));
  build.vector(name + ".bias", outputs);
}

}  // namespace

void add_gpt(ModelBuilder& build, GptShape const& shape) {
  auto const channels = shape.channels;
  build.unit("transformer.embedding");
  ParamOptions const of_vocabulary{.cut = cut_of_vocabulary({0, build.tensor_ranks()})};
  auto const tokens = build.table("transformer.wte.weight", shape.vocabulary, channels, of_vocabulary);
  build.table("transformer.wpe.weight", shape.context, channels);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    auto const block = fmt::format("transformer.h.{}", layer);
    build.unit(block, channels, 2);  // sums after attention and the MLP
    add_norm(build, block + ".ln_1", channels);
    add_first(build, block + ".attn.c_attn", channels, 3 * channels, {channels, channels, channels});
    add_second(build, block + ".attn.c_proj", channels, channels);
    add_norm(build, block + ".ln_2", channels);
    add_first(build, block + ".mlp.c_fc", channels, shape.hidden);
    add_second(build, block + ".mlp.c_proj", shape.hidden, channels);
    build.last_product();
    build.attention(channels);
  }
  build.unit("transformer.head", channels, 1);
  add_norm(build, "transformer.ln_f", channels);
  if (shape.tied_head) {
    build.tie(tokens);
  } else {
    build.matrix("lm_head.weight", shape.vocabulary, channels, of_vocabulary);
  }
  build.first_product();
  build.last_product();
}

}  // namespace zeroth::tools
