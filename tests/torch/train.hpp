// SPDX-License-Identifier: Apache-2.0
/// Trains small libtorch programs, under an engine and by libtorch alone.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/adapters/torch.hpp>
#include <zeroth/zeroth.hpp>

namespace zeroth::testing {

using TorchOptions = torch_adapter::TrainerOptions;

/// A module, the mean loss of samples [first, first + count), the options of its Trainer, and the unit that a rank with
/// these samples skips.
struct Program {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(std::int64_t first, std::int64_t count)> loss;
  TorchOptions options{};
  std::function<std::string(std::int64_t first, std::int64_t count)> skipped{};
};
/// Makes one for a rank, the same on all.
using MakeProgram = std::function<Program(Job&)>;

/// A rank's results.
struct Trained {
  std::vector<float> losses, norms, weights, buffers;
  float evaluation = 0;
  std::int64_t planned = 0, peak = 0;
};
[[nodiscard]] std::vector<std::uint32_t> bits_of(Trained const& trained);

struct Run {
  int steps = 4;
  bool evaluates = true;
  std::function<void(torch_adapter::Trainer&)> begin{};            ///< Before the first step.
  std::function<void(torch_adapter::Trainer&, int)> after_step{};  ///< Called with the step's number.
};

/// The stage file of these tests, and more members of its top level, of zero_optimization, and of zeroth. Members of
/// `optimizer` take the place of AdamW's.
struct File {
  int stage = 0, micro = 2, accumulation = 1, slots = 12;
  std::string more{}, zero{}, zeroth{};
  double learning_rate = 1e-2;
  std::optional<std::string> optimizer{};
  [[nodiscard]] Config config() const;
};

[[nodiscard]] Trained train(Job& job, Config const& config, MakeProgram const& make, Run const& run = {});
/// Trains on threads. All ranks must have the same results, except `buffers`, which are rank 0's.
[[nodiscard]] Trained train_on_threads(int world, Config const& config, MakeProgram const& make, Run const& run = {});
/// Trains by libtorch's AdamW on batches of `batch` samples, with the decay of File. Clips gradients to a norm of
/// `clip`, if given.
[[nodiscard]] Trained train_plainly(MakeProgram const& make, std::int64_t batch, int steps, double learning_rate,
                                    std::optional<double> clip = {});

/// examples/torch_gpt, examples/torch_vision on images of noise, a module with unusual features, one that reads
/// parameters through views of all kinds, one of loaded TorchScript modules, one with dropout in each unit, whose masks
/// follow from the samples where ranks are processes, and one of whose two experts a rank skips one.
[[nodiscard]] Program gpt_program(Job& job);
[[nodiscard]] Program gpt_recomputed(Job& job);
[[nodiscard]] Program vision_program(Job& job);
[[nodiscard]] Program odd_program(Job& job);
[[nodiscard]] Program odd_recomputed(Job& job);
[[nodiscard]] Program views_program(Job& job);
[[nodiscard]] Program scripted_program(Job& job);
[[nodiscard]] Program dropout_program(Job& job);
[[nodiscard]] Program dropout_recomputed(Job& job);
/// The same programs, made by deferred_init().
[[nodiscard]] Program gpt_deferred(Job& job);
[[nodiscard]] Program odd_deferred(Job& job);
[[nodiscard]] Program views_deferred(Job& job);
/// A module whose masks depend on the state of libtorch's generator.
[[nodiscard]] Program dropout_going_on(Job& job);
[[nodiscard]] Program experts_program(Job& job);

/// Makes, and destroys, a Trainer at stage 3 of this many units of wide_bytes, made by deferred_init() or by seeded().
void make_wide_trainer(Job& job, int units, bool is_deferred);
inline constexpr std::int64_t wide_bytes = 4LL * 1024 * 4096;

}  // namespace zeroth::testing
