// SPDX-License-Identifier: Apache-2.0
/// Checkpoints of random models by 1 to 9 ranks, read by a program that shares no code with the library.
#include <fmt/format.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/hash.hpp"
#include "pipeline_runs.hpp"
#include "runs.hpp"
#include "small_run.hpp"
#include "support/child.hpp"
#include "tensor_runs.hpp"

namespace zeroth::testing {
namespace {

/// A model made from random numbers, the same on every rank.
struct RandomModel {
  Model model{1};
  std::vector<Unit> units;
  std::vector<std::vector<Param<1>>> trained;

  explicit RandomModel(unsigned seed) {
    std::mt19937 random{seed};
    auto const up_to = [&](int most) { return std::uniform_int_distribution{1, most}(random); };
    for (int u = up_to(4); u > 0; --u) {
      units.push_back(model.unit(fmt::format("unit{}", u)));
      trained.emplace_back();
      for (int p = up_to(4); p > 0; --p) {
        bool const trainable = up_to(4) > 1 || (units.size() == 1 && p == 1);  // at least one parameter is trainable
        auto const name = fmt::format("unit{}.p{}", u, p);
        auto const param =
            model.param(units.back(), name, {up_to(up_to(2) == 1 ? 9 : 900)}, Normal{1}, {.trainable = trainable});
        if (trainable) {
          trained.back().push_back(param);
        }
      }
    }
  }
};

template <Element T, GradientOf<T> G>
void train_a_step(Engine<T, G>& engine, RandomModel const& random) {
  train(engine, 1, [&](auto& micro, int) {
    for (auto const unit : random.units) {
      auto const p = micro.forward(unit);
    }
    float const seed = micro.report_loss(1);
    for (auto u = random.units.size(); u-- > 0;) {
      auto const p = micro.backward(random.units[u]);
      for (auto const& param : random.trained[u]) {
        contribute(p, param, micro.first_sample(), seed);
      }
    }
  });
}

/// Compares the results of a program without the library with those of the library.
void check_reading(Folder const& folder) {
  Child reader{{.command = {ZEROTH_PYTHON, "-B", ZEROTH_SOURCE_DIR "/tests/checkpoint/read_checkpoint.py",
                            (folder / "step_00000001").string(), (folder / "weights").string()},
                .folder = folder.path(),
                .environment = {}}};
  auto const ending = reader.wait();
  INFO(reader.output());
  REQUIRE(ending.status == 0);
  std::string expected;
  for (auto const& [name, bytes] : states_in(folder / "step_00000001")) {
    std::string_view const text{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
    expected += fmt::format("{} {:016x}\n", name, Fnv1a{}.characters(text).value());
  }
  CHECK(reader.output() == expected);
}

}  // namespace

TEST_CASE("an independent reader finds any layout of 1 to 9 ranks as docs/checkpoints.md describes it") {
  auto const first_seed = std::random_device{}();
  for (unsigned i = 0; i < 18; ++i) {
    auto const seed = first_seed + i;
    std::mt19937 random{seed};
    auto const below = [&](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>{0, count - 1}(random);
    };
    int const world = 1 + static_cast<int>(i % 9);
    auto const stage = static_cast<int>(below(4));
    auto const& types = all_types[below(std::size(all_types))];
    auto const* const optimizer = below(2) == 0 ? nullptr : R"("type": "Lion", "params": {"lr": 0.01})";
    auto const config = Config::from_json(varied_file(types, stage, optimizer, 1));
    INFO(fmt::format("seed {}: {} ranks, stage {}, {}", seed, world, stage, types.name));
    Folder const folder;
    auto const outcome = run_job(world, [&](Job& job) {
      RandomModel const model{seed};
      with_precision(config, [&]<Element T, GradientOf<T> G>(Precision<T, G>) {
        Engine<T, G> engine{job, model.model, config};
        train_a_step(engine, model);
        engine.save(folder.path()).wait();
        engine.save_weights(folder / "weights");
      });
    });
    REQUIRE(messages_of(outcome) == "");
    check_reading(folder);
  }
}

TEST_CASE("an independent reader finds the layouts of pipelines as docs/checkpoints.md describes them") {
  for (auto const& [stages, data, zero] : {std::tuple{2, 1, 0}, std::tuple{3, 2, 3}, std::tuple{4, 2, 1}}) {
    Shape const shape{.stages = stages, .data = data, .zero = zero};
    INFO(shape.text());
    Folder const folder;
    ChainRun run;
    run.options.steps = 1;
    run.after_step = [&](AnyEngine& engine, int) {
      engine.save(folder.path()).wait();
      engine.save_weights(folder / "weights");
    };
    train_chains(config_of(bf16_types, shape), shape, run);
    check_reading(folder);
  }
}

TEST_CASE("an independent reader finds the layouts of tensor ranks' parts as docs/checkpoints.md describes them") {
  for (auto const& grid : {Grid{1, 1, 2, 0}, Grid{1, 2, 3, 3}, Grid{2, 2, 2, 2}, Grid{1, 1, 4, 1}}) {
    INFO(grid.text());
    Folder const folder;
    DividedOptions options;
    options.steps = 1;
    options.after_step = [&](AnyEngine& engine, int) {
      engine.save(folder.path()).wait();
      engine.save_weights(folder / "weights");
    };
    train_grid(config_of(fp32_types, grid), grid, options);
    check_reading(folder);
  }
}

}  // namespace zeroth::testing
