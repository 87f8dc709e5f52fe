// SPDX-License-Identifier: Apache-2.0
#include "hub_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include <zeroth/core/error.hpp>

#include "gpt.hpp"
#include "llama.hpp"

namespace zeroth::tools {
namespace {

constexpr std::int64_t most_layers = largest_unit_count - 2;  // the embedding and the head take two units

std::int64_t layers_of(JsonObject const& config, char const* key) {
  auto const layers = config.extent(key);
  if (layers > most_layers) {
    config.refuse(key, fmt::format("at most {}", most_layers));
  }
  return layers;
}

/// Reads the widths of heads and the number of key and value heads. Absent keys default as in the architecture's class
/// in transformers.
void read_heads(JsonObject const& config, LlamaShape& shape) {
  shape.heads = config.extent("num_attention_heads");
  if (!config.has("head_dim") && shape.channels % shape.heads != 0) {
    config.refuse("num_attention_heads", fmt::format("a divisor of hidden_size, {}, or a head_dim", shape.channels));
  }
  shape.head_channels = config.extent("head_dim", shape.channels / shape.heads);
  shape.key_value_heads = config.extent("num_key_value_heads", shape.heads);
  if (shape.heads % shape.key_value_heads != 0) {
    config.refuse("num_key_value_heads", fmt::format("a divisor of num_attention_heads, {}", shape.heads));
  }
}

/// Reads the shape, and sets the sequence length.
LlamaShape read_llama(JsonObject const& config, ModelRequest const& request, ModelBuilder& build) {
  LlamaShape shape;
  shape.layers = layers_of(config, "num_hidden_layers");
  shape.channels = config.extent("hidden_size");
  shape.hidden = config.extent("intermediate_size");
  shape.vocabulary = config.extent("vocab_size");
  read_heads(config, shape);
  shape.tied_head = config.flag("tie_word_embeddings", false) && !request.untied_head;
  auto const context = config.extent("max_position_embeddings");
  build.context(request.context.value_or(context));
  return shape;
}

void require(JsonObject const& config, char const* key) {
  if (!config.has(key)) {
    config.refuse(key, "a whole number; this architecture has no default that follows from the other keys");
  }
}

void gpt2(JsonObject const& config, ModelRequest const& request, ModelBuilder& build) {
  auto const channels = config.extent("n_embd");
  if (config.flag("add_cross_attention", false)) {
    config.refuse("add_cross_attention", "false");
  }
  GptShape const shape{.layers = layers_of(config, "n_layer"),
                       .channels = channels,
                       .context = config.extent("n_positions"),
                       .vocabulary = config.extent("vocab_size"),
                       .hidden = config.extent("n_inner", 4 * channels),
                       .tied_head = config.flag("tie_word_embeddings", true) && !request.untied_head};
  if (request.tensor_ranks > 1) {
    build.expect_divided_heads(config.extent("n_head"));
  }
  build.context(request.context.value_or(shape.context));
  add_gpt(build, shape);
}

void llama(JsonObject const& config, ModelRequest const& request, ModelBuilder& build) {
  auto shape = read_llama(config, request, build);
  shape.query_bias = shape.output_bias = config.flag("attention_bias", false);
  shape.mlp_bias = config.flag("mlp_bias", false);
  add_llama(build, shape);
}

void mistral(JsonObject const& config, ModelRequest const& request, ModelBuilder& build) {
  require(config, "num_key_value_heads");
  add_llama(build, read_llama(config, request, build));
}

void qwen2(JsonObject const& config, ModelRequest const& request, ModelBuilder& build) {
  require(config, "num_key_value_heads");
  auto shape = read_llama(config, request, build);
  shape.query_bias = true;
  add_llama(build, shape);
}

void qwen3(JsonObject const& config, ModelRequest const& request, ModelBuilder& build) {
  require(config, "num_key_value_heads");
  require(config, "head_dim");
  auto shape = read_llama(config, request, build);
  shape.query_bias = shape.output_bias = config.flag("attention_bias", false);
  shape.query_norm = true;
  add_llama(build, shape);
}

struct Architecture {
  std::string_view type;
  void (*add)(JsonObject const& config, ModelRequest const& request, ModelBuilder& build);
};
constexpr Architecture architectures[] = {
    {"gpt2", gpt2}, {"llama", llama}, {"mistral", mistral}, {"qwen2", qwen2}, {"qwen3", qwen3}};

}  // namespace

SourcedModel model_of_hub_config(std::filesystem::path const& file, Object const& object, ModelRequest const& request) {
  JsonObject const config{file, object};
  auto const type = config.text("model_type");
  auto const* const known = std::ranges::find(architectures, std::string_view{type}, &Architecture::type);
  if (known == std::end(architectures)) {
    config.refuse("model_type", R"("gpt2", "llama", "mistral", "qwen2" or "qwen3"; of another model give its )"
                                ".safetensors file, or a list of its parameters");
  }
  ModelBuilder build{file.string(), request.tensor_ranks, request.sequence};
  known->add(config, request, build);
  return build.finish(file.string(), fmt::format("model_type {}", type));
}

}  // namespace zeroth::tools
