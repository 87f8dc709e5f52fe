// SPDX-License-Identifier: Apache-2.0
/// A module of two units, and an input for it.
#pragma once
#include "train.hpp"

namespace zeroth::testing {

struct LayerImpl : torch::nn::Module {
  torch::nn::Linear linear{register_module("linear", torch::nn::Linear{8, 8})};
  at::Tensor forward(at::Tensor const& x) { return at::tanh(linear(x)); }
};
ZEROTH_TORCH_UNIT(Layer);
struct NetImpl : torch::nn::Module {
  Layer a{register_module("a", Layer{})}, b{register_module("b", Layer{})};
  at::Tensor forward(at::Tensor const& x) { return b(a(x)); }
};
TORCH_MODULE(Net);

inline at::Tensor input() { return at::full({2, 8}, 0.5); }

}  // namespace zeroth::testing
