// SPDX-License-Identifier: Apache-2.0
/// Chooses parameters of a module by policies.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/matrices.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter::detail {

/// The parameters that policies select, each under its first name: by their names in named_parameters(), or by the
/// module that registers them first. Throws ContractError, naming `option`, for a policy that selects none.
[[nodiscard]] inline std::vector<std::pair<std::string, at::Tensor>> picked_parameters(
    ::torch::nn::Module const& root, std::vector<UnitPolicy> const& policies, char const* option) {
  std::vector<std::pair<std::string, at::Tensor>> picked;
  if (policies.empty()) {
    return picked;
  }
  auto const places = registrations(root);
  auto const all = root.named_parameters();
  for (auto const& policy : policies) {
    bool any = false;
    for (auto const& item : all) {
      auto const& tensor = item.value();
      if (!policy(item.key(), *places.at(tensor.unsafeGetTensorImpl()).module)) {
        continue;
      }
      any = true;
      if (std::ranges::none_of(picked, [&](auto const& other) { return other.second.is_same(tensor); })) {
        picked.emplace_back(item.key(), tensor);
      }
    }
    ZEROTH_EXPECTS(any, std::string{"TrainerOptions::"} + option + ": " + policy.what() +
                            " picks no parameter; the names are those of named_parameters(), such as \"" +
                            (all.is_empty() ? std::string{} : all[0].key()) + "\"");
  }
  return picked;
}

}  // namespace zeroth::torch_adapter::detail
