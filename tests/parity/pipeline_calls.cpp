// SPDX-License-Identifier: Apache-2.0
/// Calls between steps return the same on a pipeline of any number of stages as on one stage, bit for bit, and do not
/// change training.
#include "pipeline_calls.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine/safetensors_file.hpp"
#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/sanitized.hpp"

namespace zeroth::testing {
namespace {

constexpr int ranks_of_a_stage = 2;

Config config_of_calls(Types const& types, int stage, int stages, std::string const& schedule = "1f1b") {
  return Config::from_json(file(
      types, stage, 4, "every_micro_step", movements[stage],
      fmt::format(
          R"(, "tied_gradients": "apart", "mesh": {{"pipeline": {}}}, "pipeline": {{"schedule": "{}", "chunks": {}}},
             "check": true, "poison": {})",
          stages, schedule, schedule == "interleaved_1f1b" ? 2 : 1, stages == 2)));
}

/// Returns the results of the ranks of a mesh, and those of `ask(engine, chain, step)` between steps: `before` the
/// first action of the step, and after its last one.
template <class F>
std::vector<Trained> ask_all(Config const& config, F const& ask, Chain::Ties ties = Chain::Ties::near) {
  auto const world = ranks_of_a_stage * config.pipeline().stages;
  std::vector<Trained> all(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    with_precision(config, [&]<class P>(P) {
      using T = typename P::Compute;
      using G = typename P::Gradient;
      Chain const chain{ties};
      Mesh mesh{job, config};
      Engine<T, G> engine{mesh, chain.model, config};
      std::vector<StepReport> reports;
      std::vector<float> said;
      for (int step = 1; step <= 4; ++step) {
        ask(engine, chain, said, step, true);
        run_actions(engine, chain, {}, step, false);
        ask(engine, chain, said, step, false);
        if (auto const report = engine.step()) {
          reports.push_back(*report);
        }
      }
      auto trained = finish(engine, chain, std::move(reports));
      trained.evaluations = said;
      all[static_cast<std::size_t>(job.rank())] = std::move(trained);
    });
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : all) {
    REQUIRE(bits_of(each) == bits_of(all.front()));
  }
  return all;
}

std::vector<std::uint32_t> without_answers(Trained trained) {
  trained.evaluations.clear();
  return bits_of(trained);
}

}  // namespace

TEST_CASE("evaluations of a pipeline equal those of one stage, and change nothing") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types);
  auto const evaluations = [](auto& engine, Chain const& chain, std::vector<float>& said, int step, bool before) {
    if (step == 2 && before) {
      evaluate(engine, chain, 4, 0);  // left before it began
      evaluate(engine, chain, 4, 2);
    }
    said.push_back(evaluate(engine, chain, before ? 3 : 1));
  };
  auto const nothing = [](auto&, Chain const&, std::vector<float>&, int, bool) {};
  auto const base = ask_all(config_of_calls(types, 0, 1), evaluations).front();
  REQUIRE(base.evaluations.size() == 8);
  REQUIRE(base.evaluations[0] != base.evaluations[6]);  // training changed the model in between
  for (int const stages : {2, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {} stages, ZeRO {}", types.name, stages, stage));
      auto const config = config_of_calls(types, stage, stages, stage % 2 == 0 ? "gpipe" : "1f1b");
      auto const asked = ask_all(config, evaluations).front();
      CHECK(bits_of(asked) == bits_of(base));
      CHECK(without_answers(asked) == bits_of(ask_all(config, nothing).front()));
    }
  }
}

TEST_CASE("evaluations of a pipeline with several chunks per stage equal those of one stage") {
  auto const evaluations = [](auto& engine, Chain const& chain, std::vector<float>& said, int step, bool before) {
    said.push_back(evaluate(engine, chain, step + (before ? 1 : 0)));  // some numbers of passes fill the turns of
                                                                       // chunks, others do not
  };
  auto const base = ask_all(config_of_calls(bf16_types, 0, 1), evaluations).front();
  for (int const stage : {0, 3}) {
    CHECK(bits_of(ask_all(config_of_calls(bf16_types, stage, 2, "interleaved_1f1b"), evaluations).front()) ==
          bits_of(base));
  }
}

TEST_CASE("an evaluation that stops between the chunks of a pass ends the job at the next call that sends") {
  auto const config = config_of_calls(fp32_types, 0, 2, "interleaved_1f1b");
  for (int const passes : {1, 2, 3}) {
    CHECK_THAT(messages_of(run_job(2,
                                   [&](Job& job) {
                                     Chain const chain;
                                     Mesh mesh{job, config};
                                     Engine<float> engine{mesh, chain.model, config};
                                     evaluate(engine, chain, 2, passes);
                                     evaluate(engine, chain, 1);
                                   })),
               Catch::Contains("evaluation() after an evaluation stopped between the chunks of a pass"));
  }
}

TEST_CASE("norms of a pipeline's gradients are those of one stage, wherever the parameters are") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types);
  auto const ties = GENERATE(Chain::Ties::near, Chain::Ties::across);
  auto const norms = [](auto& engine, Chain const& chain, std::vector<float>& said, int, bool before) {
    if (!before) {
      said.push_back(engine.gradient_norm());
      for (auto const& layer : chain.layers) {
        said.push_back(engine.gradient_norm(*layer.weight));
      }
    }
  };
  auto const base = ask_all(config_of_calls(types, 0, 1), norms, ties).front();
  REQUIRE(base.evaluations.size() == 4 * (1 + 7));
  REQUIRE(base.evaluations[0] == base.reports[0].grad_norm);
  REQUIRE(base.evaluations[1] > 0);
  for (int const stages : {2, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      INFO(fmt::format("{}, {} stages, ZeRO {}", types.name, stages, stage));
      auto const config = config_of_calls(types, stage, stages, schedule_of(stages, stage));
      CHECK(bits_of(ask_all(config, norms, ties).front()) == bits_of(base));
    }
  }
}

TEST_CASE("weight files of a pipeline are those of one stage, byte for byte, and are read by any other") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters);
  auto const ties = GENERATE(Chain::Ties::near, Chain::Ties::across);
  Folder const folder;
  auto const saved = [&](Config const& config, std::string const& name) {
    ask_all(
        config,
        [&](auto& engine, Chain const&, std::vector<float>&, int step, bool before) {
          if (step == 3 && before) {
            engine.save_weights(folder / name);
          }
        },
        ties);
    return read_file(folder / name);
  };
  auto const base = saved(config_of_calls(types, 0, 1), "base");
  REQUIRE(base.size() > 1000);
  auto const loads = [&](auto& engine, Chain const& chain, std::vector<float>& said, int step, bool before) {
    if (step == 2 && before) {
      engine.load_weights(folder / "base");
      said.push_back(evaluate(engine, chain, 1));
    }
  };
  auto const trained = bits_of(ask_all(config_of_calls(types, 0, 1), loads, ties).front());
  for (int const stages : {2, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {} stages, ZeRO {}", types.name, stages, stage));
      auto const config = config_of_calls(types, stage, stages, schedule_of(stages, stage));
      CHECK(saved(config, "other") == base);
      CHECK(bits_of(ask_all(config, loads, ties).front()) == trained);
    }
  }
}

}  // namespace zeroth::testing
