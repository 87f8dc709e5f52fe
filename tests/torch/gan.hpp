// SPDX-License-Identifier: Apache-2.0
/// A GAN of two small networks with a Trainer each, and the same by libtorch's optimizers alone.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "train.hpp"

namespace zeroth::testing {

struct GanRun {
  int steps = 3;
  bool recomputes = false, drops = false;  ///< The critic's layers run again in backward; have dropout.
  std::function<void(torch_adapter::Trainer&critic)> before_generator{}, after_generator{};  ///< Called before and
                                                                                             ///< after the generator's
                                                                                             ///< passes.
};

/// Each step trains the critic once, then the generator. Losses, norms and weights are first the critic's. Its
/// BatchNorm has buffers, which the generator's passes change as well. Two stage files, as they may differ.
[[nodiscard]] Trained train_gan(Job& job, Config const& of_critic, Config const& of_generator, GanRun const& run = {});
/// Trains on threads. All ranks must have the same results, except `buffers`, which are rank 0's.
[[nodiscard]] Trained train_gan_on_threads(int world, Config const& of_critic, Config const& of_generator,
                                           GanRun const& run = {});
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor> const&)>;
/// Trains by two of libtorch's optimizers on batches of `batch` samples.
[[nodiscard]] Trained train_gan_plainly(std::int64_t batch, int steps, MakeOptimizer const& make);

}  // namespace zeroth::testing
