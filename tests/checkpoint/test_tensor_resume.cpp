// SPDX-License-Identifier: Apache-2.0
/// Checkpoints of tensor ranks have the same states on any mesh, and resume with the same bits on the same number of
/// tensor ranks.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/folder.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "tensor_runs.hpp"
#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {
namespace {

constexpr int steps_in_all = 5;
constexpr int saved_behind = 3;

/// Reports and weights after the save, and all final states.
struct GridEnd {
  std::vector<std::uint32_t> bits;
  std::map<std::string, std::vector<std::byte>> states;
  bool operator==(GridEnd const&) const = default;
};

GridEnd end_of(Trained trained, std::filesystem::path const& folder) {
  return {grid_bits_behind(saved_behind, std::move(trained)),
          states_in(folder / fmt::format("step_{:08}", steps_in_all))};
}

GridEnd never_stopped(Config const& config, Grid const& grid, DividedOptions const& options) {
  Folder const folder;
  return end_of(train_grid(config, grid, saving_grid(folder.path(), steps_in_all, steps_in_all, options)),
                folder.path());
}

/// Resumes from `folder`.
GridEnd gone_on(Config const& config, Grid const& grid, Folder const& folder, DividedOptions const& options) {
  Folder const into;
  auto going_on = saving_grid(into.path(), steps_in_all, steps_in_all, options);
  going_on.begin = [&](AnyEngine& engine) { return static_cast<int>(engine.restore(folder.path()).step); };
  return end_of(train_grid(config, grid, going_on), into.path());
}

/// Saved on one grid, restored on another.
GridEnd cut_in_two(Config const& saved, Grid const& on, Config const& restored, Grid const& then,
                   DividedOptions const& options) {
  Folder const folder;
  train_grid(saved, on, saving_grid(folder.path(), saved_behind, saved_behind, options));
  return gone_on(restored, then, folder, options);
}

constexpr Types types_of_grids[] = {fp32_types, bf16_types, fp16_types, bf16_masters, bf16_masters_and_moments};

std::filesystem::path last_of(Folder const& folder) { return folder / fmt::format("step_{:08}", saved_behind); }

}  // namespace

TEST_CASE("a checkpoint of tensor ranks resumes at any ZeRO stage, with and without a pipeline, with the same bits") {
  auto const types = GENERATE(from_range(std::begin(types_of_grids), std::end(types_of_grids)));
  if (sanitized && types.keys != fp16_types.keys) {
    return;
  }
  for (int const tensor : {2, 4}) {
    DividedOptions options;
    options.sequence = tensor == 2;
    options.overflow_at_step = types.keys == fp16_types.keys ? saved_behind + tensor / 4 : 0;  // at the save, or after
                                                                                               // it
    Grid const plain{.pipeline = 1, .data = 2, .tensor = tensor, .zero = 0};
    auto const base = never_stopped(config_of(types, plain), plain, options);
    REQUIRE(base.states.contains("exp_avg/table"));
    REQUIRE(base.states.contains("frozen/block1.bias"));
    for (int pipeline = 1; pipeline <= 2; ++pipeline) {
      for (int zero = 0; zero <= 3; ++zero) {
        static Sample sample{11, 3};
        if (sample.leaves_out()) {
          continue;
        }
        Grid const on{pipeline, 2, tensor, zero};
        Grid const then{3 - pipeline, 2, tensor, (3 * zero + pipeline) % 4};
        INFO(fmt::format("{}, saved by {}, restored by {}", types.name, on.text(), then.text()));
        CHECK(cut_in_two(config_of(types, on), on, config_of(types, then), then, options) == base);
      }
    }
  }
}

TEST_CASE("states are the same on any mesh: any number of tensor ranks, data ranks and stages") {
  auto const types = GENERATE(fp32_types, bf16_masters_and_moments);
  if (sanitized && types.name == fp32_types.name) {
    return;
  }
  auto const grids = sampled<Grid>({{1, 1, 1, 0},
                                    {1, 2, 1, 3},
                                    {1, 1, 2, 1},
                                    {1, 1, 3, 0},
                                    {1, 3, 2, 3},
                                    {2, 2, 2, 2},
                                    {3, 1, 4, 1},
                                    {1, 2, 4, 3},
                                    {4, 1, 1, 2}},
                                   2);
  auto const trained_on = Grid{2, 1, 2, 1};
  Folder const first;
  DividedOptions options;
  options.sequence = true;
  train_grid(config_of(types, trained_on), trained_on, saving_grid(first.path(), saved_behind, saved_behind, options));
  auto const states = states_in(last_of(first));
  REQUIRE(states.size() == 3 * 15 + 1);
  std::int64_t padding = 0;
  for (auto const& on : grids) {
    Folder const folder;
    INFO(on.text());
    train_grid(config_of(types, on), on, copying_grid(first.path(), folder.path()));
    REQUIRE(states_in(last_of(folder)) == states);
    auto const paddings = padding_in(last_of(folder));
    CHECK(paddings.second == 0);
    padding += paddings.first;
    for (auto const& then : grids) {
      static Sample sample{13, 2};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(then.text());
      Folder const again;
      train_grid(config_of(types, then), then, copying_grid(folder.path(), again.path()));
      CHECK(states_in(last_of(again)) == states);
      CHECK(padding_in(last_of(again)).second == 0);
    }
  }
  CHECK(padding > 0);
}

TEST_CASE("the step after a restore has the same bits, whatever number of tensor ranks saved the states") {
  DividedOptions options;
  options.sequence = true;
  Grid const on{.pipeline = 2, .data = 1, .tensor = 2, .zero = 2};
  Folder const folder;
  train_grid(config_of(fp32_types, on), on, saving_grid(folder.path(), saved_behind, saved_behind, options));
  auto const same = gone_on(config_of(fp32_types, on), on, folder, options);
  for (int const tensor : sampled<int>({4, 1}, 2)) {
    Grid const then{.pipeline = 1, .data = 1, .tensor = tensor, .zero = 3};
    auto const base = gone_on(config_of(fp32_types, then), then, folder, options);
    REQUIRE(base.bits.size() == same.bits.size());
    for (auto const& by : {Grid{1, 2, 1, 3}, Grid{2, 1, 4, 1}, Grid{1, 1, 3, 2}}) {
      INFO(fmt::format("{} tensor ranks, saved by {}", tensor, by.text()));
      Folder const again;
      train_grid(config_of(fp32_types, by), by, copying_grid(folder.path(), again.path()));
      CHECK(gone_on(config_of(fp32_types, then), then, again, options) == base);
    }
    // Those tensor ranks train the same as other numbers of them, up to rounding.
    for (std::size_t i = 0; i < base.bits.size(); ++i) {
      auto const one = std::bit_cast<float>(same.bits[i]);
      auto const other = std::bit_cast<float>(base.bits[i]);
      REQUIRE(std::abs(one - other) <= 2e-5F * std::max(1.0F, std::abs(one)));
    }
  }
}

TEST_CASE("tensor ranks resume with every optimizer") {
  auto const rule = GENERATE(from_range(sampled(trained_rules(), 4)));
  INFO(rule.name);
  Grid const on{1, 2, 2, 2};
  Grid const then{2, 2, 2, 1};
  auto const config = [&](Grid const& grid) { return config_of(fp32_types, grid, rule.optimizer); };
  CHECK(cut_in_two(config(on), on, config(then), then, {}) == never_stopped(config(on), on, {}));
}

TEST_CASE("groups of data ranks and states on a disk are saved and restored by tensor ranks") {
  Folder const disk;
  auto const keys = [](Config const& config, std::string const& zero) {
    return config.with(fmt::format(R"({{"zero_optimization": {{{}}}}})", zero));
  };
  auto const nvme = fmt::format(
      R"("offload_optimizer": {{"device": "nvme", "nvme_path": "{}"}}, "sub_group_size": 130)", disk.path().string());
  Grid const two{1, 4, 2, 3};
  Grid const one{1, 4, 1, 3};
  auto const base = never_stopped(config_of(bf16_types, two), two, {});
  auto const in_groups = keys(config_of(bf16_types, two), R"("mics_shard_size": 2)");
  auto const on_disk = keys(config_of(bf16_types, two), nvme);
  CHECK(cut_in_two(in_groups, two, on_disk, two, {}) == base);
  CHECK(cut_in_two(on_disk, two, in_groups, two, {}) == base);
  Folder const folder;
  train_grid(on_disk, two, saving_grid(folder.path(), saved_behind, saved_behind, {}));
  auto const states = states_in(last_of(folder));
  for (bool const whole : {true, false}) {
    Folder const whole_again;
    Folder const cut_again;
    auto const of_whole = config_of(bf16_types, one);
    train_grid(whole ? keys(of_whole, nvme) : of_whole, one, copying_grid(folder.path(), whole_again.path()));
    CHECK(states_in(last_of(whole_again)) == states);
    train_grid(whole ? config_of(bf16_types, two) : on_disk, two, copying_grid(whole_again.path(), cut_again.path()));
    CHECK(states_in(last_of(cut_again)) == states);
  }
}

TEST_CASE("a mesh's save is complete once step sums show that all tensor ranks have written") {
  Grid const grid{2, 1, 2, 2};
  auto const config = config_of(fp32_types, grid);
  Folder const folder;
  std::vector<int> steps(4);
  std::vector<std::string> files(4);
  REQUIRE(messages_of(run_job(4, [&](Job& job) {
            Mesh mesh{job, config};
            Divided const divided{mesh.tensor_part(), true};
            Engine<float> engine{mesh, divided.model, config};
            DividedRun<float, float> run{mesh, divided, engine};
            auto const rank = static_cast<std::size_t>(job.rank());
            engine.claim(folder.path());
            auto const saving = engine.save(folder.path());
            for (; !saving.done() && steps[rank] < 100'000; ++steps[rank]) {
              run.step(1);
              engine.step();
            }
            files[rank] = folder.contents();
            engine.finish();
          })) == "");
  CHECK(steps == std::vector(4, steps.front()));
  CHECK(steps.front() >= 3);  // at the earliest it is written by the first step, committed by the second, and known in
                              // the third
  CHECK(files == std::vector<std::string>(4, ".lock latest step_00000000 "));
}

}  // namespace zeroth::testing
