// SPDX-License-Identifier: Apache-2.0
/// Parameters of a module that its Trainer leaves alone.
#pragma once
#include <torch/torch.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/deferred.hpp"
#include "zeroth/adapters/torch/parameter_policies.hpp"
#include "zeroth/adapters/torch/units.hpp"

namespace zeroth::torch_adapter::detail {

/// The parameters that TrainerOptions::ignored selects, each under its first name.
class Ignored {
 public:
  /// Gives memory to those that deferred_init() made without. Throws ContractError for a policy that selects none.
  Ignored(::torch::nn::Module const& root, std::vector<UnitPolicy> const& policies) {
    named_ = picked_parameters(root, policies, "ignored");
    for (auto const& [name, tensor] : named_) {
      tensors_.insert(tensor.unsafeGetTensorImpl());
    }
    RemadeValues remade;
    for (auto& [name, tensor] : named_) {
      if (remaker_of(tensor) != nullptr) {
        tensor.set_data(remade.of(tensor).clone());
      }
    }
  }
  [[nodiscard]] bool has(at::Tensor const& tensor) const { return tensors_.contains(tensor.unsafeGetTensorImpl()); }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> const& named() const noexcept { return named_; }

 private:
  std::unordered_set<at::TensorImpl const*> tensors_;
  std::vector<std::pair<std::string, at::Tensor>> named_;
};

}  // namespace zeroth::torch_adapter::detail
