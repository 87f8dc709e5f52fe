// SPDX-License-Identifier: Apache-2.0
/// State that the second run of a micro-step must find as the first run did.
#pragma once
#include <torch/torch.h>

#include <utility>
#include <vector>

#include "zeroth/adapters/torch/generators.hpp"
#include "zeroth/adapters/torch/heap.hpp"

namespace zeroth::torch_adapter::detail {

/// State besides gradients that a micro-step changes, saved for one that runs twice: the module's buffers, and the
/// generator if this is the only rank of its process.
class KeptState {
 public:
  explicit KeptState(std::vector<at::Tensor> const& buffers) {
    at::NoGradGuard const no_grad;
    for (auto const& buffer : buffers) {
      buffers_.emplace_back(buffer, buffer.clone());
    }
    if (training_threads() == 1) {
      generator_ = random_state();
    }
  }
  /// Restores the state that the constructor saved.
  void put_back() {
    at::NoGradGuard const no_grad;
    for (auto& [buffer, value] : buffers_) {
      buffer.copy_(value);
    }
    if (generator_.defined()) {
      set_random_state(generator_);
    }
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
  at::Tensor generator_;
};

}  // namespace zeroth::torch_adapter::detail
