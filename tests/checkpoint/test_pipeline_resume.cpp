// SPDX-License-Identifier: Apache-2.0
/// Saved pipelines resume with the same or other numbers of stages and ranks, at any ZeRO stage, or without a mesh.
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pipeline_runs.hpp"
#include "support/folder.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {
namespace {

constexpr int steps_of_chains = 6;
constexpr int saved_at = 3;

/// The results after step `saved_at`, and all final states.
struct ChainEnd {
  std::vector<std::uint32_t> bits;
  std::map<std::string, std::vector<std::byte>> states;
  bool operator==(ChainEnd const&) const = default;
};

ChainEnd end_of(Trained trained, std::filesystem::path const& folder) {
  std::erase_if(trained.reports, [](StepReport const& report) { return report.step <= saved_at; });
  REQUIRE(trained.reports.size() == steps_of_chains - saved_at);
  return {bits_of(trained), states_in(folder / fmt::format("step_{:08}", steps_of_chains))};
}

ChainRun saving_chain(std::filesystem::path const& folder, int at, int last, ChainOptions const& options) {
  ChainRun run;
  run.options = options;
  run.options.steps = last;
  run.after_step = [=](AnyEngine& engine, int step) {
    if (step == at) {
      engine.save(folder).wait();
    }
  };
  return run;
}

ChainEnd never_stopped(Config const& config, Shape const& shape, ChainOptions const& options = {}) {
  Folder const folder;
  auto const run = saving_chain(folder.path(), steps_of_chains, steps_of_chains, options);
  return end_of(train_chains(config, shape, run), folder.path());
}

/// Saved after step `saved_at` on one shape, restored on another.
ChainEnd cut_in_two(Config const& saved, Shape const& on, Config const& restored, Shape const& then,
                    ChainOptions const& options = {}) {
  Folder const folder;
  train_chains(saved, on, saving_chain(folder.path(), saved_at, saved_at, options));
  auto run = saving_chain(folder.path(), steps_of_chains, steps_of_chains, options);
  run.begin = [&](AnyEngine& engine) { return static_cast<int>(engine.restore_latest(folder.path())->step); };
  return end_of(train_chains(restored, then, run), folder.path());
}

constexpr std::pair<int, int> grids[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {4, 1}, {4, 2}};  // stages, ranks per stage

}  // namespace

TEST_CASE("a saved pipeline resumes in any other pipeline, at any ZeRO stage, and without a mesh") {
  auto const types = GENERATE(fp32_types, bf16_types);
  ChainOptions const options{.ties = GENERATE(Chain::Ties::near, Chain::Ties::across)};
  auto const base = never_stopped(config_of(types, {}), {}, options);
  REQUIRE(base.states.contains(options.ties == Chain::Ties::near ? "exp_avg_sq/layer5.w" : "exp_avg_sq/layer0.w"));
  REQUIRE(base.states.contains("frozen/layer1.b"));
  for (auto const& [stages, data] : grids) {
    for (auto const& [other_stages, other_data] : grids) {
      for (int zero = 0; zero <= 3; ++zero) {
        static Sample sample{5};
        if (sample.leaves_out()) {
          continue;
        }
        Shape const on{stages, data, zero};
        Shape const then{other_stages, other_data, (3 * zero + stages + other_data) % 4};
        INFO(fmt::format("{}, saved by {}, restored by {}", types.name, on.text(), then.text()));
        CHECK(cut_in_two(config_of(types, on), on, config_of(types, then), then, options) == base);
      }
    }
  }
}

TEST_CASE("a pipeline resumes with the state of its loss scale") {
  for (int const overflow : {3, 4}) {
    INFO("overflow in step " << overflow);
    ChainOptions const options{.overflow_at_step = overflow, .ties = Chain::Ties::across};
    Shape const on{2, 2, 1};
    Shape const then{4, 1, 3};
    auto const base = never_stopped(config_of(fp16_types, {}), {}, options);
    CHECK(cut_in_two(config_of(fp16_types, on), on, config_of(fp16_types, then), then, options) == base);
    CHECK(cut_in_two(config_of(fp16_types, {}), {}, config_of(fp16_types, on), on, options) == base);
  }
}

TEST_CASE("a pipeline resumes with every optimizer, and with rounded masters and moments") {
  auto const rule = GENERATE(from_range(trained_rules()));
  INFO(rule.name);
  for (auto const& types : {fp32_types, bf16_masters_and_moments}) {
    static Sample sample{3};
    if (sample.leaves_out() || (!has_bf16_states(rule) && types.name == bf16_masters_and_moments.name)) {
      continue;
    }
    INFO(types.name);
    Shape const on{4, 1, 2};
    Shape const then{2, 1, 3};
    auto const config = [&](Shape const& shape) { return config_of(types, shape, rule.optimizer); };
    CHECK(cut_in_two(config(on), on, config(then), then) == never_stopped(config({}), {}));
  }
}

TEST_CASE("a pipeline resumes with what encoding has lost of each use of a tied parameter") {
  ChainOptions const options{.ties = Chain::Ties::across};
  auto const signs = [](Shape const& shape) {
    return config_of(bf16_types, shape)
        .with(R"({"zeroth": {"reduce_codec": "sign", "same_bits_at_any_ranks": false}})");
  };
  for (int const data : {1, 2}) {
    Shape const one{1, data, 1};
    auto const base = never_stopped(signs(one), one, options);
    for (int const stages : {1, 2, 4}) {
      for (int const other_stages : {1, 2, 4}) {
        Shape const on{stages, data, stages % 2};
        Shape const then{other_stages, data, 1};
        INFO(fmt::format("saved by {}, restored by {}", on.text(), then.text()));
        CHECK(cut_in_two(signs(on), on, signs(then), then, options) == base);
      }
    }
  }
}

TEST_CASE("groups of ranks and states on a disk are saved and restored in a pipeline") {
  Folder const disk;
  auto const keys = [](Config const& config, std::string const& zero) {
    return config.with(fmt::format(R"({{"zero_optimization": {{{}}}}})", zero));
  };
  auto const nvme = fmt::format(
      R"("offload_optimizer": {{"device": "nvme", "nvme_path": "{}"}}, "sub_group_size": 500)", disk.path().string());
  Shape const one{1, 4, 3};
  Shape const two{2, 4, 3};
  auto const base = never_stopped(config_of(bf16_types, one), one);
  auto const in_groups = keys(config_of(bf16_types, two), R"("mics_shard_size": 2)");
  auto const on_disk = keys(config_of(bf16_types, two), nvme);
  CHECK(cut_in_two(in_groups, two, on_disk, two) == base);
  CHECK(cut_in_two(on_disk, two, in_groups, two) == base);
  CHECK(cut_in_two(config_of(bf16_types, one), one, in_groups, two) == base);
}

TEST_CASE("a pipeline's save is complete once step sums show that the ranks of all stages have written") {
  for (int zero = 0; zero <= 3; ++zero) {
    Shape const shape{.stages = 2, .data = 2, .zero = zero};
    auto const config = config_of(fp32_types, shape);
    Folder const folder;
    std::vector<int> steps(4);
    std::vector<std::string> files(4);
    REQUIRE(messages_of(run_job(4, [&](Job& job) {
              Chain const chain;
              Mesh mesh{job, config};
              Engine<float> engine{mesh, chain.model, config};
              auto const rank = static_cast<std::size_t>(job.rank());
              engine.claim(folder.path());
              auto const saving = engine.save(folder.path());
              for (; !saving.done() && steps[rank] < 100'000; ++steps[rank]) {
                run_actions(engine, chain, {}, 0, false);
                engine.step();
              }
              files[rank] = folder.contents();
              engine.finish();
            })) == "");
    INFO(shape.text());
    CHECK(steps == std::vector(4, steps.front()));
    CHECK(steps.front() >= 3);  // at the earliest it is written by the first step, committed by the second, and known
                                // in the third
    CHECK(files == std::vector<std::string>(4, ".lock latest step_00000000 "));
  }
}

}  // namespace zeroth::testing
