// SPDX-License-Identifier: Apache-2.0
/// The model as units and parameters, named and shaped as Hugging Face's GPT2LMHeadModel has them: what the math of
/// every device reads.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <zeroth/model/model.hpp>

#include "shape.hpp"

namespace gpt {

using zeroth::Param;

inline constexpr zeroth::ParamOptions no_decay{.weight_decay_factor = 0};  ///< Of everything with one dimension.

/// How tensor ranks divide a matrix (Megatron-LM, Shoeybi et al. 2019): the first of a pair by columns, each part with
/// its biases; the second by rows, and then what each gives is a part of a sum, to which the bias is added once.
enum class Divided : std::uint8_t { columns, rows };

struct LinearParams {
  Param<2> weight;  // [in, out], or what this rank has of it
  Param<1> bias;

  /// Columns are divided in each of `sections`, which lie one behind the other.
  LinearParams(zeroth::Model& model, zeroth::Unit unit, std::string const& name, std::int64_t in, std::int64_t out,
               float stddev, Divided divided, std::vector<std::int64_t> const& sections = {})
      : weight{model.param(unit, name + ".weight", {in, out}, zeroth::Normal{stddev},
                           {.cut = zeroth::Cut{.dim = divided == Divided::columns ? 1 : 0, .sections = sections}})},
        bias{model.param(unit, name + ".bias", {out}, zeroth::Constant{0}, options_of_bias(divided, sections))} {}

 private:
  static zeroth::ParamOptions options_of_bias(Divided divided, std::vector<std::int64_t> const& sections) {
    auto options = no_decay;
    if (divided == Divided::columns) {
      options.cut = zeroth::Cut{.dim = 0, .sections = sections};
    }
    return options;
  }
};

struct LayerNormParams {
  Param<1> weight, bias;

  LayerNormParams(zeroth::Model& model, zeroth::Unit unit, std::string const& name, std::int64_t channels)
      : weight{model.param(unit, name + ".weight", {channels}, zeroth::Constant{1}, no_decay)},
        bias{model.param(unit, name + ".bias", {channels}, zeroth::Constant{0}, no_decay)} {}
};

struct EmbeddingParams {
  zeroth::Unit unit;
  Param<2> tokens, positions;

  EmbeddingParams(zeroth::Model& model, Shape const& s)
      : unit{model.unit("embedding", {.rows_per_sample = 0})},
        tokens{model.param(unit, "transformer.wte.weight", {s.vocabulary, s.channels}, zeroth::Normal{0.02F})},
        positions{model.param(unit, "transformer.wpe.weight", {s.context, s.channels}, zeroth::Normal{0.02F})} {}
};

struct BlockParams {
  zeroth::Unit unit;
  LayerNormParams ln_1;
  LinearParams c_attn, c_proj;
  LayerNormParams ln_2;
  LinearParams c_fc, mlp_c_proj;

  BlockParams(zeroth::Model& model, Shape const& s, std::string const& name)
      : unit{model.unit(name, {.rows_per_sample = s.context, .input_per_sample = s.context * s.channels})},
        ln_1{model, unit, name + ".ln_1", s.channels},
        c_attn{model,  unit,   name + ".attn.c_attn", s.channels,
               3 * s.channels, stddev, Divided::columns, {s.channels, s.channels, s.channels}},
        c_proj{model, unit, name + ".attn.c_proj", s.channels, s.channels, residual_stddev(s), Divided::rows},
        ln_2{model, unit, name + ".ln_2", s.channels},
        c_fc{model, unit, name + ".mlp.c_fc", s.channels, 4 * s.channels, stddev, Divided::columns},
        mlp_c_proj{model, unit, name + ".mlp.c_proj", 4 * s.channels, s.channels, residual_stddev(s), Divided::rows} {}

 private:
  static constexpr float stddev = 0.02F;
  /// Of projections onto the residual stream, of which there are two per layer: its variance stays as it is.
  static float residual_stddev(Shape const& s) { return stddev / std::sqrt(2 * static_cast<float>(s.layers)); }
};

/// Reads the token embedding as well, or a matrix of its own.
struct HeadParams {
  zeroth::Unit unit;
  LayerNormParams ln_f;
  Param<2> tokens;

  HeadParams(zeroth::Model& model, Shape const& s, EmbeddingParams const& embedding)
      : unit{model.unit("head", {.rows_per_sample = s.context, .input_per_sample = s.context * s.channels})},
        ln_f{model, unit, "transformer.ln_f", s.channels},
        tokens{s.untied_head ? model.param(unit, "lm_head.weight", {s.vocabulary, s.channels}, zeroth::Normal{0.02F})
                             : embedding.tokens} {
    if (!s.untied_head) {
      model.tie(unit, tokens);
    }
  }
};

struct GptParams {
  Shape shape;
  EmbeddingParams embedding;
  std::vector<BlockParams> blocks;
  HeadParams head;

  GptParams(zeroth::Model& model, Shape const& s)
      : shape{s}, embedding{model, s}, blocks{make_blocks(model, s)}, head{model, s, embedding} {}

 private:
  static std::vector<BlockParams> make_blocks(zeroth::Model& model, Shape const& s) {
    std::vector<BlockParams> blocks;
    for (std::int64_t i = 0; i < s.layers; ++i) {
      blocks.emplace_back(model, s, "transformer.h." + std::to_string(i));
    }
    return blocks;
  }
};

}  // namespace gpt
