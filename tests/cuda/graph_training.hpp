// SPDX-License-Identifier: Apache-2.0
/// Training whose steps can be recorded: kernels read everything that differs between steps from device memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/contribute.hpp"
#include "cuda/nccl_ranks.hpp"
#include "engine/small_model.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {

/// The memory of one rank's steps: the number of the first sample, which the host writes before each step, and a loss
/// per micro-step.
class StepInputs {
 public:
  static constexpr int most_micro_steps = 4;

  explicit StepInputs(cudaStream_t stream) : stream_{stream} {
    check(cudaHostAlloc(&host_, 2 * sizeof(std::int64_t), cudaHostAllocDefault));
    check(cudaMalloc(&device_, 4096));
  }
  StepInputs(StepInputs const&) = delete;
  StepInputs& operator=(StepInputs const&) = delete;
  ~StepInputs() {
    static_cast<void>(cudaFreeHost(host_));
    static_cast<void>(cudaFree(device_));
  }
  /// Copies `samples`, the number of samples so far, after the work of `stream`.
  void copy(std::int64_t samples) {
    auto* const from = static_cast<std::int64_t*>(host_) + turn_;
    turn_ = 1 - turn_;  // the copy before the last one is complete, since the host has the report of its step
    *from = samples;
    check(cudaMemcpyAsync(device_, from, sizeof samples, cudaMemcpyDefault, stream_));
    samples_ = samples;
  }
  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::int64_t const* on_device() const noexcept { return static_cast<std::int64_t const*>(device_); }
  [[nodiscard]] float* loss(int micro_step) const noexcept {
    return reinterpret_cast<float*>(static_cast<std::byte*>(device_) + 256) + micro_step;
  }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  static void check(cudaError_t error) {
    if (error != cudaSuccess) {
      throw std::runtime_error{std::string{"the test's own call: "} + cudaGetErrorName(error)};
    }
  }

 private:
  cudaStream_t stream_;
  void *host_ = nullptr, *device_ = nullptr;
  int turn_ = 0;
  std::int64_t samples_ = 0;
};

/// Samples whose gradients are infinite.
struct Overflow {
  std::int64_t begin = 0, end = 0;
};

/// The micro-steps and step() of one step.
template <Element T, GradientOf<T> G>
std::optional<StepReport> enqueue_step(Engine<T, G>& engine, SmallModel const& small, StepInputs const& inputs,
                                       Overflow overflow) {
  int index = 0;
  for (auto micro : engine.micro_steps()) {
    forward(micro, small);
    auto const offset = micro.first_sample() - inputs.samples();
    auto* const loss = inputs.loss(index++);
    auto const sample = [first = inputs.on_device(), offset] { return *first + offset; };
    StepInputs::check(fake_cuda::enqueue(inputs.stream(), [=] { *loss = loss_of(sample()); }));
    auto const seed = micro.report_loss_on_device(DeviceLoss{loss});
    for (auto u = small.units.size(); u-- > 0;) {
      auto const p = micro.backward(small.units[u]);
      auto const value = p[small.weights[u]];
      auto const grad = p.grad(small.weights[u]);
      StepInputs::check(fake_cuda::enqueue(
          inputs.stream(), [=, data = value.data(), to = grad.data(), count = value.count(), beta = grad.beta()] {
            bool const overflows = sample() >= overflow.begin && sample() < overflow.end;
            auto const factor = overflows ? std::numeric_limits<float>::infinity() : seed.value();
            Contribution<T, G> const work{data, to, count, beta, factor, sample()};
            for (std::int64_t i = 0; i < count; ++i) {
              work.at(i);
            }
          }));
    }
  }
  return engine.step();
}

/// The actions in and between steps, on every rank.
struct GraphPlan {
  int steps = 12;
  int first_recorded = 3;  ///< The first step that is recorded. If it is not below `steps`, no step is recorded.
  Overflow overflow = {};
  bool disturbs = false;                             ///< Whether evaluations and a step that is not recorded come in
                                                     ///< between.
  std::function<void(int step)> before_replay = {};  ///< On every rank; may be empty.
};

/// Opens every unit in an evaluation, which changes what is gathered.
template <Element T, GradientOf<T> G>
void evaluate(Engine<T, G>& engine, SmallModel const& small) {
  for (auto pass : engine.evaluation(1)) {
    forward(pass, small);
    static_cast<void>(pass.report_loss(1));
  }
}

/// Reports of all steps. `batch`: samples of a step, over all ranks.
template <Element T, GradientOf<T> G>
std::vector<StepReport> train_by_graphs(Engine<T, G>& engine, SmallModel const& small, GraphPlan const& plan,
                                        std::int64_t batch) {
  StepInputs inputs{cuda_stream(engine)};
  std::vector<StepReport> reports;
  auto const keep = [&reports](std::optional<StepReport> const& report) {
    if (report) {
      reports.push_back(*report);
    }
  };
  std::optional<StepGraph> graph;
  for (int step = 0; step < plan.steps; ++step) {
    inputs.copy(step * batch);
    auto const eager = [&] { return enqueue_step(engine, small, inputs, plan.overflow); };
    bool const in_between = plan.disturbs && step == plan.first_recorded + 4;
    if (step < plan.first_recorded || in_between) {
      keep(eager());
    } else if (!graph) {
      graph.emplace(engine.step_graph());
      keep(graph->record([&] { expect(!eager().has_value(), "step() in a recording has no report"); }));
    } else {
      if (plan.before_replay) {
        plan.before_replay(step);
      }
      keep(graph->replay());
    }
    if (plan.disturbs && step % 2 == 1) {
      evaluate(engine, small);
    }
  }
  keep(engine.finish());
  return reports;
}

[[nodiscard]] inline std::string contents_of(std::filesystem::path const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

struct GraphRun {
  std::vector<std::vector<StepReport>> reports;  ///< By rank.
  std::string weights;                           ///< The bytes of a weight file.
  std::string errors;
};

/// Trains the model of small_model.hpp on `world` ranks, each on its own GPU.
inline GraphRun run_graphs(int world, Config const& config, std::int64_t batch, GraphPlan const& plan) {
  Folder const folder;
  GraphRun run;
  run.reports.resize(static_cast<std::size_t>(world));
  auto const outcome = run_nccl_job(
      world,
      [&](Job& job) {
        with_precision(config, [&]<class T, class G>(Precision<T, G>) {
          SmallModel const small;
          Engine<T, G> engine{job, small.model, config};
          run.reports[static_cast<std::size_t>(job.rank())] = train_by_graphs(engine, small, plan, batch);
          engine.save_weights(folder / "weights");
        });
      },
      world);
  run.errors = messages_of(outcome);
  if (run.errors.empty()) {
    run.weights = contents_of(folder / "weights");
  }
  return run;
}

}  // namespace zeroth::testing
