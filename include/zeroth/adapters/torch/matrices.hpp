// SPDX-License-Identifier: Apache-2.0
/// Chooses the parameters of a libtorch module that get ParamOptions::matrix, for optimizers such as Muon.
#pragma once
#include <torch/torch.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace zeroth::torch_adapter {

/// Whether a parameter gets ParamOptions::matrix: by its name, the module that registers it first, and its tensor.
using MatrixRule =
    std::function<bool(std::string const& name, ::torch::nn::Module const& module, at::Tensor const& tensor)>;

namespace detail {

/// Calls f(module) with the root and all modules inside it, in order of registration. A module that is registered in
/// several places comes several times.
template <class F>
void each_module(::torch::nn::Module const& root, F const& f) {
  f(root);
  for (auto const& item : root.named_modules({}, /*include_self=*/false)) {
    f(*item.value());
  }
}

/// A parameter's place in a module.
struct Registration {
  ::torch::nn::Module const* module;  ///< The first module that registers it.
  int places = 0;                     ///< In how many places it is registered.
};

/// All parameters of a module, by the tensors' identities.
[[nodiscard]] inline std::unordered_map<at::TensorImpl const*, Registration> registrations(
    ::torch::nn::Module const& root) {
  std::unordered_map<at::TensorImpl const*, Registration> found;
  each_module(root, [&found](::torch::nn::Module const& module) {
    for (auto const& tensor : module.parameters(/*recurse=*/false)) {
      ++found.emplace(tensor.unsafeGetTensorImpl(), Registration{&module}).first->second.places;
    }
  });
  return found;
}

}  // namespace detail

/// Returns the default rule of TrainerOptions::matrix for the parameters of `root`: the weight of each
/// torch::nn::Linear that requires a gradient, except the last Linear in order of registration, which is taken as the
/// head, and weights that are registered in several places. It goes by the tensors, so call it after the module's
/// parameters have been registered. Not collective.
[[nodiscard]] inline MatrixRule hidden_matrices(::torch::nn::Module const& root) {
  std::vector<at::Tensor> weights;
  detail::each_module(root, [&weights](::torch::nn::Module const& module) {
    if (auto const* const linear = dynamic_cast<::torch::nn::LinearImpl const*>(&module)) {
      weights.push_back(linear->weight);
    }
  });
  auto const places = detail::registrations(root);
  std::unordered_set<at::TensorImpl const*> hidden;
  for (auto const& weight : weights) {
    auto const at = places.find(weight.unsafeGetTensorImpl());
    if (at != places.end() && at->second.places == 1 && !weight.is_same(weights.back()) && weight.dim() == 2 &&
        weight.requires_grad()) {
      hidden.insert(at->first);
    }
  }
  return [hidden](std::string const&, ::torch::nn::Module const&, at::Tensor const& tensor) {
    return hidden.contains(tensor.unsafeGetTensorImpl());
  };
}

}  // namespace zeroth::torch_adapter
