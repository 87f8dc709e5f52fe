// SPDX-License-Identifier: Apache-2.0
/// Measures the host's work for a step at stage 3 on a GPU: CPU time of a rank's thread for a micro-step and for
/// step(), and the calls of CUDA and NCCL that it makes, step by step and with a StepGraph. Runs on the tests' own CUDA
/// runtime and NCCL, so their cost of a call replaces the driver's, and no kernel of a model is enqueued.
///
/// bench_launch_path [ROUNDS]        prints one JSON object per number of units
#include <time.h>

#include <barrier>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "cuda/nccl_ranks.hpp"
#include "paired.hpp"
#include "zeroth/adapters/cuda.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth {
namespace {

constexpr int world = 2, accumulation = 2;
constexpr auto stage_file = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
  "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
  "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}})";

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t calls_so_far() {
  std::int64_t all = 0;
  for (auto const& calls : {testing::fake_cuda::calls(), testing::fake_nccl::calls()}) {
    for (auto const& [function, count] : calls) {
      // Polls, whose number depends on how long the host waits.
      all += function == "cudaEventQuery" || function == "ncclCommGetAsyncError" ? 0 : count;
    }
  }
  return all;
}

/// The measurements of rank 0.
struct Measured {
  double micro_step_s = 0, update_s = 0;  ///< CPU time of the thread, for a micro-step and for step().
  double replay_s = 0;                    ///< The same for StepGraph::replay(), with all micro-steps.
  double calls = 0, replay_calls = 0;     ///< Calls of a whole step.
};

/// One rank, whose units each have one parameter.
class Rank {
 public:
  Rank(Job& job, int units) : model_{1} {
    for (int u = 0; u < units; ++u) {
      auto const name = "block" + std::to_string(u);
      units_.push_back(model_.unit(name));
      weights_.push_back(model_.param(units_.back(), name + ".w", {4096}, Normal{0.02F}));
    }
    engine_.emplace(job, model_, Config::from_json(stage_file));
    if (cudaMalloc(&loss_, sizeof(float)) != cudaSuccess) {
      throw SystemError{"no memory for the loss"};
    }
  }
  Rank(Rank const&) = delete;
  Rank& operator=(Rank const&) = delete;
  ~Rank() { static_cast<void>(cudaFree(loss_)); }

  Engine<bf16>& engine() noexcept { return *engine_; }
  void micro_step(MicroStep<bf16, bf16>& micro) {
    for (auto const unit : units_) {
      static_cast<void>(micro.forward(unit));
    }
    static_cast<void>(micro.report_loss_on_device(DeviceLoss{static_cast<float const*>(loss_)}));
    for (auto u = units_.size(); u-- > 0;) {
      auto const p = micro.backward(units_[u]);
      static_cast<void>(p.grad(weights_[u]));
    }
  }
  void train() {
    for (auto micro : engine_->micro_steps()) {
      micro_step(micro);
    }
    static_cast<void>(engine_->step());
  }

 private:
  Model model_;
  std::vector<Unit> units_;
  std::vector<Param<1>> weights_;
  std::optional<Engine<bf16>> engine_;
  void* loss_ = nullptr;
};

/// Calls per step, over `steps` steps. All ranks call it.
template <class Step>
double calls_of(int steps, std::barrier<>& together, Step const& step) {
  together.arrive_and_wait();
  auto const before = calls_so_far();
  together.arrive_and_wait();
  for (int i = 0; i < steps; ++i) {
    step();
  }
  together.arrive_and_wait();
  auto const made = calls_so_far() - before;
  together.arrive_and_wait();
  return static_cast<double>(made) / (steps * world);
}

Measured measure(Job& job, int units, int rounds, std::barrier<>& together) {
  Rank rank{job, units};
  auto& engine = rank.engine();
  for (int step = 0; step < 4; ++step) {
    rank.train();
  }
  std::vector<double> micro_steps, updates, replays;
  for (int round = 0; round < rounds; ++round) {
    auto at = cpu_seconds();
    for (auto micro : engine.micro_steps()) {
      rank.micro_step(micro);
    }
    micro_steps.push_back((cpu_seconds() - at) / accumulation);
    at = cpu_seconds();
    static_cast<void>(engine.step());
    updates.push_back(cpu_seconds() - at);
  }
  Measured measured;
  measured.calls = calls_of(8, together, [&] { rank.train(); });
  auto graph = engine.step_graph();
  static_cast<void>(graph.record([&] { rank.train(); }));
  for (int round = 0; round < rounds; ++round) {
    auto const at = cpu_seconds();
    static_cast<void>(graph.replay());
    replays.push_back(cpu_seconds() - at);
  }
  measured.replay_calls = calls_of(8, together, [&] { static_cast<void>(graph.replay()); });
  static_cast<void>(engine.finish());
  measured.micro_step_s = bench::quantile(micro_steps, 0.5);
  measured.update_s = bench::quantile(updates, 0.5);
  measured.replay_s = bench::quantile(replays, 0.5);
  return measured;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"What a step at stage 3 takes of the host on a GPU"};
  int rounds = 50;
  app.add_option("ROUNDS", rounds, "steps that are measured")->capture_default_str()->check(zeroth::bench::count);
  CLI11_PARSE(app, argc, argv);
  for (int const units : {12, 48}) {
    zeroth::testing::begin_nccl({.gpus = zeroth::world});
    zeroth::Measured measured;
    std::barrier together{zeroth::world};
    auto const outcome = zeroth::testing::run_nccl_job(
        zeroth::world,
        [&](zeroth::Job& job) {
          auto const mine = zeroth::measure(job, units, rounds, together);
          if (job.rank() == 0) {
            measured = mine;
          }
        },
        zeroth::world);
    if (auto const problem = zeroth::testing::messages_of(outcome); !problem.empty()) {
      std::cerr << problem << '\n';
      return 1;
    }
    nlohmann::ordered_json const line{{"benchmark", "launch_path"},
                                      {"stage", 3},
                                      {"units", units},
                                      {"ranks", zeroth::world},
                                      {"micro_steps", zeroth::accumulation},
                                      {"us_per_micro_step", 1e6 * measured.micro_step_s},
                                      {"us_per_update", 1e6 * measured.update_s},
                                      {"calls_per_step", measured.calls},
                                      {"us_per_replay", 1e6 * measured.replay_s},
                                      {"calls_per_replay", measured.replay_calls}};
    std::cout << line.dump() << std::endl;
  }
  return 0;
}
