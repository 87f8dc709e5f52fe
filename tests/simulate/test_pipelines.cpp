// SPDX-License-Identifier: Apache-2.0
/// A simulated pipeline against arithmetic, against plans, and against the same pipeline on the CPU.
#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "parity/pipeline.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"
#include "zeroth/simulate/simulate.hpp"

namespace zeroth::simulate {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// One thousand operations per microsecond; everything else is free.
Machine free_machine() {
  Machine machine;
  machine.name = "free";
  machine.peak_flops_per_s = 1e9;
  machine.memory_bytes_per_s = machine.node_bytes_per_s = machine.network_bytes_per_s = unlimited;
  machine.ranks_per_node = 8;
  machine.ring = {{0, 0, 0, 1}};
  return machine;
}

/// Units that each take a millisecond forward, and one backward.
struct Line {
  Model model;
  std::vector<UnitWork> work;

  explicit Line(int units, std::int64_t channels = 250) {
    for (int i = 0; i < units; ++i) {
      auto const name = fmt::format("unit{}", i);
      auto const unit = model.unit(name, {.input_per_sample = channels});
      static_cast<void>(model.param(unit, name, {100}, Constant{0}));
      work.push_back({.forward_flops = 1e6, .backward_flops = 1e6});
    }
  }
};

Config config_of(int stages, std::string const& schedule, int micro_steps, int zero = 0) {
  return Config::from_json(fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": {},
                       "optimizer": {{"type": "AdamW"}}, "zero_optimization": {{"stage": {}}},
                       "zeroth": {{"mesh": {{"pipeline": {}}}, "pipeline": {{"schedule": "{}", "chunks": {}}},
                                   "reduce_gradients": "every_micro_step"}}}})",
                                       micro_steps, zero, stages, schedule, schedule == "interleaved_1f1b" ? 2 : 1));
}

}  // namespace

TEST_CASE("On a machine without latencies a pipeline takes exactly the computed time") {
  for (int const k : {2, 3, 4, 8}) {
    Line const line{k};
    for (auto const* const schedule : {"gpipe", "1f1b"}) {
      INFO(k << " stages, " << schedule);
      auto const full = run(line.model, config_of(k, schedule, k), k, line.work, free_machine());
      CHECK(full.step_ms == 2 * (2 * k - 1));
      CHECK(full.exposed_comm_ms == 0);
      REQUIRE(std::ssize(full.pipeline) == k);
      for (auto const& stage : full.pipeline) {
        CHECK(stage.bubble_ms == Approx(2 * (k - 1)));  // in addition to 2 k milliseconds of math
      }
      CHECK(full.bubble_ms == Approx(2 * (k - 1)));
      CHECK(full.mfu == Approx(static_cast<double>(k) / (2 * k - 1)));
      // One micro-step after the other, each through all stages and back.
      auto const naive = run(line.model, config_of(k, schedule, 1), k, line.work, free_machine());
      CHECK(naive.step_ms == 2 * k);
    }
  }
}

TEST_CASE("Chunks shorten the bubble, and gradients of weights fill it") {
  for (int const k : {2, 4}) {
    INFO(k << " stages");
    // Two units each: a stage takes 2 ms forward, and as long back.
    Line const twice{2 * k};
    auto const chunks = run(twice.model, config_of(k, "interleaved_1f1b", k), k, twice.work, free_machine());
    CHECK(chunks.step_ms == Approx(4 * k + (k - 1) * 4 / 2));
    // Half of a stage's millisecond back is for weights.
    Line const line{k};
    auto const divided = run(line.model, config_of(k, "zb_h1", 2 * k), k, line.work, free_machine());
    CHECK(divided.step_ms == Approx(2 * 2 * k + (k - 1) * (1 + 1 - 2 * 0.5)));
  }
}

TEST_CASE("Messages cost latency and bytes over the link between the nodes of both ends") {
  auto const config = config_of(2, "1f1b", 1);
  auto const step_ms = [&](Line const& line, Machine const& on, int world) {
    return run(line.model, config, world, line.work, on).step_ms;
  };
  Line const line{2};
  auto machine = free_machine();
  machine.ring = {{3, 5, 7, 0.5}};
  // One message down, one up, and one sum over both stages, for the decision of the step, which goes around the ring
  // twice.
  CHECK(step_ms(line, machine, 2) == Approx(4 + 1e-3 * (2 * (3 + 5) + 3 + 2 * 5)));
  machine.ranks_per_node = 1;
  CHECK(step_ms(line, machine, 2) == Approx(4 + 1e-3 * (2 * (3 + 7) + 3 + 2 * 7)));
  // 1,000 elements more, of 4 bytes, by half of a link's bytes.
  Line const wider{2, 1250};
  auto const more_ms = [&](int world) { return step_ms(wider, machine, world) - step_ms(line, machine, world); };
  machine.network_bytes_per_s = 1e6;
  CHECK(more_ms(2) == Approx(2 * 4 / 0.5));
  machine.ranks_per_node = 2;
  machine.node_bytes_per_s = 1e7;
  CHECK(more_ms(2) == Approx(2 * 4 / 5.0));
  // Ranks of a node send at the same time: each has half of its network.
  CHECK(more_ms(4) == Approx(2 * 4 / 0.25));
}

TEST_CASE("Ranks of a simulated pipeline hold the planned memory, and represent all ranks of their stage") {
  testing::Chain const chain{GENERATE(testing::Chain::Ties::near, testing::Chain::Ties::across)};
  std::vector<UnitWork> const work(chain.layers.size(), {.forward_flops = 1e5, .backward_flops = 2e5});
  for (int const stages : {2, 3}) {
    for (auto const* const schedule : {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1"}) {
      for (int zero = 0; zero <= 3; ++zero) {
        INFO(fmt::format("{} stages, {}, ZeRO {}", stages, schedule, zero));
        auto const config = config_of(stages, schedule, 6, zero);
        int const world = 2 * stages;
        auto const planned = plan(chain.model, config, world);
        auto machine = free_machine();
        machine.node_bytes_per_s = 1e8;
        machine.ring = {{1, 2, 3, 1}};
        Options options;
        options.timelines = true;
        auto const few = run(chain.model, config, world, work, machine, options);
        REQUIRE(few.pipeline.size() == planned.pipeline.size());
        CHECK(few.timelines.size() == planned.pipeline.size());
        for (std::size_t stage = 0; stage < few.pipeline.size(); ++stage) {
          CHECK(few.pipeline[stage].memory == planned.pipeline[stage].bytes);
        }
        CHECK(few.memory == planned.bytes);
        Options every_rank;
        every_rank.all_ranks = true;
        auto const all = run(chain.model, config, world, work, machine, every_rank);
        CHECK(all.step_ms == few.step_ms);
        CHECK(all.bubble_ms == Approx(few.bubble_ms));
        CHECK(all.bytes_sent == few.bytes_sent);
        CHECK(few.bytes_sent == bytes_sent_per_step(chain.model, config, world));
      }
    }
  }
}

TEST_CASE("A simulated pipeline sends the bytes of a real one") {
  auto const ties = GENERATE(testing::Chain::Ties::near, testing::Chain::Ties::across);
  testing::Chain const chain{ties};
  std::vector<UnitWork> const work(chain.layers.size());
  for (auto const* const schedule : {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1"}) {
    for (int zero = 0; zero <= 3; ++zero) {
      INFO(schedule << ", ZeRO " << zero);
      auto const config = config_of(2, schedule, 4, zero);
      testing::Trained real;
      REQUIRE(testing::messages_of(testing::run_job(4, [&](Job& job) {
                auto trained = testing::train_chain(job, config, {.ties = ties}, true);
                if (job.rank() == 0) {
                  real = std::move(trained);
                }
              })).empty());
      auto const simulated = run(chain.model, config, 4, work, free_machine()).report;
      auto const& expected = real.reports.back();
      CHECK(simulated.gathered_bytes == expected.gathered_bytes);
      CHECK(simulated.reduced_bytes == expected.reduced_bytes);
      CHECK(simulated.prefetch_misses == expected.prefetch_misses);
      CHECK(simulated.parameter_slots_used == expected.parameter_slots_used);
    }
  }
}

TEST_CASE("The bytes of many micro-steps of a pipeline are extrapolated from few") {
  testing::Chain const chain{testing::Chain::Ties::across};
  std::vector<UnitWork> const work(chain.layers.size());
  for (auto const* const schedule : {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1"}) {
    for (int const zero : {1, 2, 3}) {
      auto const config = config_of(3, schedule, 21, zero);
      INFO(schedule << ", ZeRO " << zero);
      CHECK(bytes_sent_per_step(chain.model, config, 6) ==
            run(chain.model, config, 6, work, free_machine()).bytes_sent);
    }
  }
}

TEST_CASE("A slow rank of a stage slows its pipeline down") {
  Line const line{4};
  Options slow;
  slow.all_ranks = true;
  auto const config = config_of(4, "1f1b", 8);
  auto const even = run(line.model, config, 8, line.work, free_machine(), slow);
  slow.slowdown = {{4, 2.0}};  // rank 4 is in stage 2, at the place of rank 0, about which pipeline[0] reports
  auto const uneven = run(line.model, config, 8, line.work, free_machine(), slow);
  CHECK(uneven.step_ms > even.step_ms + 8);
  CHECK(uneven.pipeline[0].bubble_ms > even.pipeline[0].bubble_ms + 4);
}

}  // namespace zeroth::simulate
