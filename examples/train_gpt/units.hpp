// SPDX-License-Identifier: Apache-2.0
/// The model as units and parameters, with the names and shapes of Hugging Face's GPT2LMHeadModel. The math of every
/// device reads them.
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <zeroth/model/model.hpp>

#include "key_blocks.hpp"
#include "shape.hpp"

namespace gpt {

using zeroth::Param;

inline constexpr zeroth::ParamOptions no_decay{.weight_decay_factor = 0};  ///< For parameters with one dimension.

/// How tensor ranks divide a matrix (Megatron-LM, Shoeybi et al. 2019): the first of a pair by columns, each part with
/// its biases; the second by rows. The results of the second are addends of a sum, to which the bias is added once.
enum class Divided : std::uint8_t { columns, rows };

/// Whether tensor ranks divide the rows between layers: sequence parallelism (Korthikanti et al. 2022).
enum class Rows : bool { whole, divided };

/// Elements of a sample's activations between blocks, on one rank.
[[nodiscard]] inline std::int64_t activations_of(zeroth::Model const& model, Shape const& s, Rows rows) {
  return s.context * s.channels / (rows == Rows::divided ? model.tensor_part().of : 1);
}

struct LinearParams {
  Param<2> weight;  // [in, out], or this rank's part of it
  Param<1> bias;

  /// Columns are divided within each of `sections`, which are consecutive.
  LinearParams(zeroth::Model& model, zeroth::Unit unit, std::string const& name, std::int64_t in, std::int64_t out,
               float stddev, Divided divided = Divided::columns, std::vector<std::int64_t> const& sections = {})
      : weight{model.param(
            unit, name + ".weight", {in, out}, zeroth::Normal{stddev},
            {.cut = zeroth::Cut{.dim = divided == Divided::columns ? 1 : 0, .sections = sections}, .matrix = true})},
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

  /// If tensor ranks divide rows, each sees some of them.
  LayerNormParams(zeroth::Model& model, zeroth::Unit unit, std::string const& name, std::int64_t channels,
                  Rows rows = Rows::whole)
      : weight{model.param(unit, name + ".weight", {channels}, zeroth::Constant{1}, options(rows))},
        bias{model.param(unit, name + ".bias", {channels}, zeroth::Constant{0}, options(rows))} {}

 private:
  static zeroth::ParamOptions options(Rows rows) {
    auto options = no_decay;
    options.partial = rows == Rows::divided;
    return options;
  }
};

/// A matrix with a row for each word, which tensor ranks divide.
[[nodiscard]] inline Param<2> words(zeroth::Model& model, zeroth::Unit unit, std::string const& name, Shape const& s) {
  return model.param(unit, name, {s.vocabulary, s.channels}, zeroth::Normal{0.02F},
                     {.cut = zeroth::cut_of_vocabulary(model.tensor_part())});
}

struct EmbeddingParams {
  zeroth::Unit unit;
  Param<2> tokens, positions;

  EmbeddingParams(zeroth::Model& model, Shape const& s)
      : unit{model.unit("embedding", {.rows_per_sample = 0})},
        tokens{words(model, unit, "transformer.wte.weight", s)},
        positions{model.param(unit, "transformer.wpe.weight", {s.context, s.channels}, zeroth::Normal{0.02F})} {}
};

struct BlockParams {
  zeroth::Unit unit;
  LayerNormParams ln_1;
  LinearParams c_attn, c_proj;
  LayerNormParams ln_2;
  LinearParams c_fc, mlp_c_proj;

  BlockParams(zeroth::Model& model, Shape const& s, std::string const& name, Rows rows)
      : unit{model.unit(name, {.rows_per_sample = s.context, .input_per_sample = activations_of(model, s, rows)})},
        ln_1{model, unit, name + ".ln_1", s.channels, rows},
        c_attn{model,          unit,   name + ".attn.c_attn", s.channels,
               3 * s.channels, stddev, Divided::columns,      {s.channels, s.channels, s.channels}},
        c_proj{model, unit, name + ".attn.c_proj", s.channels, s.channels, residual_stddev(s), Divided::rows},
        ln_2{model, unit, name + ".ln_2", s.channels, rows},
        c_fc{model, unit, name + ".mlp.c_fc", s.channels, 4 * s.channels, stddev, Divided::columns},
        mlp_c_proj{model, unit, name + ".mlp.c_proj", 4 * s.channels, s.channels, residual_stddev(s), Divided::rows} {}

 private:
  static constexpr float stddev = 0.02F;
  /// For projections onto the residual stream, two per layer, so that its variance does not grow with depth.
  static float residual_stddev(Shape const& s) { return stddev / std::sqrt(2 * static_cast<float>(s.layers)); }
};

/// Reads the token embedding, or a separate matrix.
struct HeadParams {
  zeroth::Unit unit;
  LayerNormParams ln_f;
  Param<2> tokens;

  HeadParams(zeroth::Model& model, Shape const& s, EmbeddingParams const& embedding, Rows rows)
      : unit{model.unit("head", {.rows_per_sample = s.context, .input_per_sample = activations_of(model, s, rows)})},
        ln_f{model, unit, "transformer.ln_f", s.channels, rows},
        tokens{s.untied_head ? words(model, unit, "lm_head.weight", s) : embedding.tokens} {
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
  /// The lists of keys of this rank's heads. Null: attention is dense.
  std::shared_ptr<KeyBlocks const> key_blocks{};

  GptParams(zeroth::Model& model, Shape const& s, Rows rows = Rows::whole)
      : shape{s}, embedding{model, s}, blocks{make_blocks(model, s, rows)}, head{model, s, embedding, rows} {}

 private:
  static std::vector<BlockParams> make_blocks(zeroth::Model& model, Shape const& s, Rows rows) {
    std::vector<BlockParams> blocks;
    for (std::int64_t i = 0; i < s.layers; ++i) {
      blocks.emplace_back(model, s, "transformer.h." + std::to_string(i), rows);
    }
    return blocks;
  }
};

}  // namespace gpt
