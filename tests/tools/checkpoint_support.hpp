// SPDX-License-Identifier: Apache-2.0
/// Makes checkpoints of a small language model for the tool to inspect, and damages their files.
#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "engine/safetensors_file.hpp"
#include "engine/small_model.hpp"
#include "program_support.hpp"
#include "support/folder.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/checkpoint/record.hpp"

namespace zeroth::testing {

/// Matrices, one of them shared by two units, and frozen parameters.
struct LanguageModel {
  Model model{3};
  Unit embedding = model.unit("embedding"), block = model.unit("block"), head = model.unit("head");
  Param<2> wte = model.param(embedding, "wte.weight", {65, 16}, Normal{0.02F});
  Param<1> wpe = model.param(embedding, "wpe.weight", {128}, Normal{0.02F}, {.trainable = false});
  Param<2> mlp = model.param(block, "h.0.mlp.weight", {16, 64}, Normal{0.02F});
  Param<1> bias = model.param(block, "h.0.mlp.bias", {64}, Constant{0});
  Param<1> norm = model.param(head, "ln_f.weight", {16}, Constant{1});
  LanguageModel() { model.tie(head, wte); }
};

/// Makes `run` save a checkpoint and the weights after step 2, or before the first one the states of `from`, if any.
template <class Run>
void save_in(Run& run, std::filesystem::path const& folder, std::filesystem::path const& from) {
  auto const save = [=](AnyEngine& engine) {
    engine.save(folder).wait();
    engine.save_weights(folder / "weights.safetensors");
  };
  run.begin = [=](AnyEngine& engine) {
    if (!from.empty()) {
      engine.restore(from);
      save(engine);
    }
    return 0;
  };
  run.after_step = [=](AnyEngine& engine, int step) {
    if (step == 2) {
      save(engine);
    }
  };
}

struct SavedRun {
  int world = 2;
  int stage = 2;
  std::string keys = {};  ///< Keys of the stage file, each with a leading comma.
  std::string zero = {};  ///< Keys of its section zero_optimization, each with a leading comma.
  int steps = 2;
  std::filesystem::path from = {};     ///< A checkpoint to resume from.
  std::filesystem::path weights = {};  ///< The target of save_weights() after the last step.
  float odd_seed = 0;                  ///< Not 0: makes a gradient of the last step differ.
  std::string zeroth = {};             ///< Keys of its section zeroth, each with a leading comma.
  bool averages = false;               ///< Whether save_weights() saves averages.
};

/// Trains, and saves the state after the last step into `folder`, as if by process 4711 on node7.
inline std::filesystem::path save_run(std::filesystem::path const& folder, SavedRun const& run) {
  auto const config =
      small_config(run.stage, {.accumulation = 1, .zero = run.zero, .zeroth = run.zeroth, .more = run.keys});
  std::int64_t step = 0;
  auto const outcome = run_job(run.world, [&](Job& job) {
    LanguageModel const small;
    with_precision(config, [&]<Element T, GradientOf<T> G>(Precision<T, G>) {
      Engine<T, G> engine{job, small.model, config};
      auto last = std::int64_t{0};
      if (!run.from.empty()) {
        last = engine.restore(run.from).step;
      }
      train(engine, run.steps, [&](auto& micro, int made) {
        for (auto const unit : {small.embedding, small.block, small.head}) {
          auto const p = micro.forward(unit);
        }
        float const seed = micro.report_loss(1) + (made == run.steps - 1 ? run.odd_seed : 0);
        auto const add = [&](auto const& p, auto const& param) {
          auto const grad = p.grad(param);
          for (std::int64_t i = 0; i < p[param].count(); ++i) {
            float const old = grad.beta() == 0 ? 0.0F : to_float(grad.data()[i]);
            grad.data()[i] = from_float<G>(old + seed * noise(micro.first_sample(), i));
          }
        };
        {
          auto const p = micro.backward(small.head);
          add(p, small.norm), add(p, small.wte);
        }
        {
          auto const p = micro.backward(small.block);
          add(p, small.mlp), add(p, small.bias);
        }
        auto const p = micro.backward(small.embedding);
        add(p, small.wte);
      });
      std::string_view const mine = "epoch 0, and whatever else";
      engine.save(folder, {.program_state = std::as_bytes(std::span{mine}), .order = SampleOrder{500}, .keep = {}})
          .wait();
      if (!run.weights.empty()) {
        if (run.averages) {
          engine.swap_ema();
        }
        engine.save_weights(run.weights);
      }
      if (job.rank() == 0) {
        step = last + run.steps;
      }
    });
  });
  REQUIRE(messages_of(outcome) == "");
  auto path = folder / checkpoint::checkpoint_name(step);
  auto record = checkpoint::read_record(path);
  record.origin = {"2026-01-31T23:59:59Z", "0.1.0", "node7", 4711};
  write_file(path / checkpoint::record_name, checkpoint::to_text(record));
  return path;
}

/// Changes one bit of a file, `at` bytes before its end.
inline void flip(std::filesystem::path const& file, std::size_t at) {
  auto bytes = read_file(file);
  bytes[bytes.size() - at] ^= 4;
  write_file(file, bytes);
}

}  // namespace zeroth::testing
