// SPDX-License-Identifier: Apache-2.0
/// Parameters of a module that its Trainer leaves alone.
#pragma once
#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/deferred.hpp"
#include "zeroth/adapters/torch/matrices.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter::detail {

/// The parameters that TrainerOptions::ignored selects, each under its first name.
class Ignored {
 public:
  /// Gives memory to those that deferred_init() made without. Throws ContractError for a policy that selects none.
  Ignored(::torch::nn::Module const& root, std::vector<UnitPolicy> const& policies) {
    if (policies.empty()) {
      return;
    }
    auto const places = registrations(root);
    auto const all = root.named_parameters();
    for (auto const& policy : policies) {
      bool picked = false;
      for (auto const& item : all) {
        auto const& tensor = item.value();
        if (policy(item.key(), *places.at(tensor.unsafeGetTensorImpl()).module)) {
          picked = true;
          if (tensors_.insert(tensor.unsafeGetTensorImpl()).second) {
            named_.emplace_back(item.key(), tensor);
          }
        }
      }
      ZEROTH_EXPECTS(picked, "TrainerOptions::ignored: " + policy.what() +
                                 " picks no parameter; the names are those of named_parameters(), such as \"" +
                                 (all.is_empty() ? std::string{} : all[0].key()) + "\"");
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
