// SPDX-License-Identifier: Apache-2.0
/// GPT-2 as an ordinary libtorch module, with the names and shapes of Hugging Face's GPT2LMHeadModel: the model of
/// examples/train_gpt. Only the holder of a block uses Zeroth.
#pragma once
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <string>

#include <zeroth/adapters/torch.hpp>

#include "shape.hpp"

namespace torch_gpt {

namespace nn = torch::nn;

/// A linear layer with a weight of [in, out]; Hugging Face calls it Conv1D.
struct Conv1DImpl : nn::Module {
  torch::Tensor weight, bias;
  Conv1DImpl(std::int64_t in, std::int64_t out)
      : weight{register_parameter("weight", torch::randn({in, out}) * 0.02)},
        bias{register_parameter("bias", torch::zeros({out}))} {}
  torch::Tensor forward(torch::Tensor const& x) {
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(1);
    return torch::addmm(bias, x.reshape({-1, weight.size(0)}), weight).view(sizes);
  }
};
TORCH_MODULE(Conv1D);

struct AttentionImpl : nn::Module {
  Conv1D c_attn, c_proj;
  std::int64_t heads;
  explicit AttentionImpl(gpt::Shape const& s)
      : c_attn{register_module("c_attn", Conv1D{s.channels, 3 * s.channels})},
        c_proj{register_module("c_proj", Conv1D{s.channels, s.channels})},
        heads{s.heads} {}
  torch::Tensor forward(torch::Tensor const& x) {
    auto const rows = x.size(0), context = x.size(1), channels = x.size(2);
    auto const parts = c_attn(x).view({rows, context, 3, heads, channels / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto const mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    return c_proj(mixed.transpose(1, 2).reshape({rows, context, channels}));
  }
};
TORCH_MODULE(Attention);

struct MlpImpl : nn::Module {
  Conv1D c_fc, c_proj;
  explicit MlpImpl(gpt::Shape const& s)
      : c_fc{register_module("c_fc", Conv1D{s.channels, 4 * s.channels})},
        c_proj{register_module("c_proj", Conv1D{4 * s.channels, s.channels})} {}
  torch::Tensor forward(torch::Tensor const& x) { return c_proj(torch::gelu(c_fc(x), "tanh")); }
};
TORCH_MODULE(Mlp);

struct BlockImpl : nn::Module {
  nn::LayerNorm ln_1, ln_2;
  Attention attn;
  Mlp mlp;
  explicit BlockImpl(gpt::Shape const& s)
      : ln_1{register_module("ln_1", nn::LayerNorm{nn::LayerNormOptions({s.channels})})},
        ln_2{register_module("ln_2", nn::LayerNorm{nn::LayerNormOptions({s.channels})})},
        attn{register_module("attn", Attention{s})},
        mlp{register_module("mlp", Mlp{s})} {}
  torch::Tensor forward(torch::Tensor const& x) {
    auto const y = x + attn(ln_1(x));
    return y + mlp(ln_2(y));
  }
};
ZEROTH_TORCH_UNIT(Block);  // replaces TORCH_MODULE

struct TransformerImpl : nn::Module {
  nn::Embedding wte, wpe;
  nn::ModuleList h;
  nn::LayerNorm ln_f;
  explicit TransformerImpl(gpt::Shape const& s)
      : wte{register_module("wte", nn::Embedding{s.vocabulary, s.channels})},
        wpe{register_module("wpe", nn::Embedding{s.context, s.channels})},
        h{register_module("h", nn::ModuleList{})},
        ln_f{register_module("ln_f", nn::LayerNorm{nn::LayerNormOptions({s.channels})})} {
    for (std::int64_t i = 0; i < s.layers; ++i) {
      h->push_back(Block{s});
    }
  }
  torch::Tensor forward(torch::Tensor const& tokens) {
    auto x = wte(tokens) + wpe(torch::arange(tokens.size(1)));
    for (std::size_t i = 0; i < h->size(); ++i) {
      x = Block{h->ptr<BlockImpl>(i)}(x);
    }
    return ln_f(x);
  }
};
TORCH_MODULE(Transformer);

struct GptImpl : nn::Module {
  Transformer transformer;
  explicit GptImpl(gpt::Shape const& s) : transformer{register_module("transformer", Transformer{s})} {}
  /// Logits for [rows, context] tokens. The head is the token embedding.
  torch::Tensor forward(torch::Tensor const& tokens) {
    return torch::matmul(transformer(tokens), transformer->wte->weight.t());
  }
};
TORCH_MODULE(Gpt);

/// The mean cross entropy of the token that follows each token.
inline torch::Tensor loss_of(torch::Tensor const& logits, torch::Tensor const& targets) {
  return nn::functional::cross_entropy(logits.to(torch::kFloat).flatten(0, 1), targets.flatten());
}

/// The options of train_gpt: the same initial values, and no decay for parameters of one dimension.
inline zeroth::torch_adapter::TrainerOptions options_of(gpt::Shape const& shape) {
  auto const is_norm = [](std::string const& name) { return name.find("ln_") != std::string::npos; };
  zeroth::torch_adapter::TrainerOptions options;
  options.parameter = [is_norm](std::string const& name) {
    return zeroth::ParamOptions{.weight_decay_factor = name.ends_with(".bias") || is_norm(name) ? 0.0F : 1.0F};
  };
  options.matrix = [](std::string const&, nn::Module const& module, torch::Tensor const& tensor) {  // for Muon
    return dynamic_cast<Conv1DImpl const*>(&module) != nullptr && tensor.dim() == 2;
  };
  options.start = [is_norm, layers = shape.layers](std::string const& name) -> std::optional<zeroth::Init> {
    if (name.ends_with(".bias")) {
      return zeroth::Constant{0};
    }
    if (is_norm(name)) {
      return zeroth::Constant{1};
    }
    bool const residual = name.ends_with(".c_proj.weight");
    return zeroth::Normal{residual ? 0.02F / std::sqrt(2 * static_cast<float>(layers)) : 0.02F};
  };
  return options;
}

}  // namespace torch_gpt
