// SPDX-License-Identifier: Apache-2.0
/// Runs of a chain of layers, without a mesh or in a pipeline, split in two by a checkpoint.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parity/pipeline_calls.hpp"
#include "parity/stage_files.hpp"
#include "saved.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"

namespace zeroth::testing {

/// The shape of a job.
struct Shape {
  int stages = 1;  ///< Stages of the pipeline; 1: without a mesh, with micro_steps().
  int data = 1;    ///< Ranks per stage.
  int zero = 0;    ///< The ZeRO stage.
  [[nodiscard]] bool on_mesh() const noexcept { return stages > 1; }
  [[nodiscard]] std::string text() const { return fmt::format("{} stages of {} ranks, ZeRO {}", stages, data, zero); }
  [[nodiscard]] int world() const noexcept { return stages * data; }
};

/// The same training on any shape, with eight micro-batches per step. If sums are rounded to bf16, only shapes with the
/// same number of ranks per stage train the same.
inline Config config_of(Types const& types, Shape const& shape,
                        char const* optimizer = R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})") {
  auto const schedule = schedule_of(shape.stages, shape.zero);
  auto const more = fmt::format(
      R"(, "tied_gradients": "apart", "same_bits_at_any_ranks": {}, "mesh": {{"pipeline": {}}}, "pipeline": {{"schedule": "{}", "chunks": {}}})",
      types.keys != bf16_masters_and_moments.keys, shape.stages, schedule, schedule == "interleaved_1f1b" ? 2 : 1);
  return Config::from_json(
      file(types, shape.zero, 8 / shape.data, "every_micro_step", movements[shape.zero], more, optimizer));
}

/// A rank's actions besides training.
struct ChainRun {
  std::function<int(AnyEngine&)> begin = [](AnyEngine&) { return 0; };  ///< Returns the number of steps already done.
  std::function<void(AnyEngine&, int)> after_step = [](AnyEngine&, int) {};
  ChainOptions options;
};

/// Runs one rank, until step `run.options.steps`.
inline Trained train_chain(Job& job, Config const& config, Shape const& shape, ChainRun const& run) {
  Trained trained;
  with_precision(config, [&]<class P>(P) {
    using T = typename P::Compute;
    using G = typename P::Gradient;
    Chain const chain{run.options.ties};
    std::optional<Mesh> mesh;
    if (shape.on_mesh()) {
      mesh.emplace(job, config);
    }
    auto const engine = mesh ? std::make_unique<Engine<T, G>>(*mesh, chain.model, config)
                             : std::make_unique<Engine<T, G>>(job, chain.model, config);
    bool const last_place = (mesh ? mesh->place().data : job.rank()) + 1 == shape.data;
    std::vector<StepReport> reports;
    for (int step = run.begin(*engine) + 1; step <= run.options.steps; ++step) {
      mesh ? run_actions(*engine, chain, run.options, step, last_place)
           : run_micro_steps(*engine, chain, run.options, step, last_place);
      if (auto const report = engine->step()) {
        reports.push_back(*report);
      }
      run.after_step(*engine, step);
    }
    if (run.options.steps > 0) {
      trained = finish(*engine, chain, std::move(reports));
    }
  });
  return trained;
}

/// Runs threads, and returns the results that all ranks agree on.
inline Trained train_chains(Config const& config, Shape const& shape, ChainRun const& run) {
  std::vector<Trained> all(static_cast<std::size_t>(shape.world()));
  auto const outcome = run_job(shape.world(), [&](Job& job) {
    all[static_cast<std::size_t>(job.rank())] = train_chain(job, config, shape, run);
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : all) {
    REQUIRE(bits_of(each) == bits_of(all.front()));
  }
  return all.front();
}

}  // namespace zeroth::testing
