// SPDX-License-Identifier: Apache-2.0
/// libtorch's default generator for the CPU, of which a process has one.
#pragma once
#include <torch/torch.h>

#include <mutex>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/heap.hpp"

namespace zeroth::torch_adapter::detail {

[[nodiscard]] inline at::Tensor random_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard const lock{generator.mutex()};
  return generator.get_state();
}
inline void set_random_state(at::Tensor const& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard const lock{generator.mutex()};
  generator.set_state(state);
}

/// What a micro-step changes beside gradients, for one that runs twice: the module's buffers, and the generator where
/// this is the only rank of its process.
class KeptState {
 public:
  explicit KeptState(std::vector<at::Tensor> const& buffers) {
    at::NoGradGuard const no_grad;
    for (auto const& buffer : buffers) {
      buffers_.emplace_back(buffer, buffer.clone());
    }
    if (trainers() == 1) {
      generator_ = random_state();
    }
  }
  /// As if nothing had run since.
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
