// SPDX-License-Identifier: Apache-2.0
/// A pipeline of any number of stages trains like a single rank per place: losses, norms and weights, bit for bit. This
/// holds with every schedule, at every ZeRO stage and in every dtype, with clipping, skipped steps and loss scales.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline.hpp"
#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/sanitized.hpp"

namespace zeroth::testing {
namespace {

constexpr int data = 2;
constexpr int micro_steps = 4;
constexpr Types types_of_pipelines[] = {fp32_types, bf16_types, fp16_types, bf16_masters};

/// The keys of a pipeline: the schedule, and chunks for schedules that have several.
std::string pipeline_of(int stages, std::string const& schedule, int chunks) {
  return fmt::format(R"(, "tied_gradients": "apart", "mesh": {{"pipeline": {}}}, "pipeline": {{"schedule": "{}"{}}})",
                     stages, schedule, schedule == "interleaved_1f1b" ? fmt::format(R"(, "chunks": {})", chunks) : "");
}

std::string file_of(Types const& types, int stage, int stages, std::string const& schedule,
                    std::string const& more = "", char const* reduce = "every_micro_step") {
  return file(types, stage, micro_steps, reduce, movements[stage], pipeline_of(stages, schedule, 2) + more);
}

ChainOptions options_of(Types const& types, Chain::Ties ties) {
  return {.steps = 4, .overflow_at_step = types.keys == fp16_types.keys ? 2 : 0, .ties = ties};
}

/// Returns the results of every rank.
std::vector<Trained> train_on(int world, std::string const& text, ChainOptions const& options, bool on_mesh) {
  auto const config = Config::from_json(text);
  std::vector<Trained> all(static_cast<std::size_t>(world));
  auto const outcome = run_job(
      world, [&](Job& job) { all[static_cast<std::size_t>(job.rank())] = train_chain(job, config, options, on_mesh); });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : all) {
    REQUIRE(bits_of(each) == bits_of(all.front()));
    REQUIRE(each.planned == each.peak);
  }
  return all;
}

}  // namespace

TEST_CASE("a pipeline trains like one stage, with every schedule, ZeRO stage and dtype") {
  auto const types = GENERATE(from_range(std::begin(types_of_pipelines), std::end(types_of_pipelines)));
  auto const ties = GENERATE(Chain::Ties::near, Chain::Ties::across);
  auto const options = options_of(types, ties);
  auto const base = train_on(data, file_of(types, 0, 1, "1f1b"), options, false).front();
  REQUIRE(base.reports.size() == 4);
  REQUIRE(base.reports[1].skipped == (options.overflow_at_step == 2));
  REQUIRE(base.reports.front().grad_norm > 0);
  for (int const stages : {1, 2, 4}) {
    for (auto const* const schedule : {"gpipe", "1f1b", "zb_h1", "interleaved_1f1b"}) {
      if (std::string_view{schedule} == "interleaved_1f1b" && stages == 4) {
        continue;  // the model has too few units for two chunks per stage
      }
      for (int stage = 0; stage <= 3; ++stage) {
        static Sample sample{3};
        if (sample.leaves_out()) {
          continue;
        }
        INFO(fmt::format("{}, ties {}, {} stages, {}, ZeRO {}", types.name,
                         ties == Chain::Ties::near ? "near" : "across", stages, schedule, stage));
        auto const poison = stage == 3 || stages == 2 ? R"(, "poison": true, "check": true)" : "";
        auto const text = file_of(types, stage, stages, schedule, poison);
        REQUIRE(bits_of(train_on(data * stages, text, options, true).front()) == bits_of(base));
      }
    }
  }
}

TEST_CASE("Muon: a pipeline trains like one stage, with matrices that stages share") {
  auto const types = GENERATE(fp32_types, fp16_types);
  auto const ties = GENERATE(Chain::Ties::near, Chain::Ties::across);
  auto const options = options_of(types, ties);
  auto const text = [&](int stage, int stages) {
    return file(types, stage, micro_steps, "every_micro_step", movements[stage], pipeline_of(stages, "1f1b", 1),
                R"("type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1})");
  };
  auto const base = train_on(data, text(0, 1), options, false).front();
  for (int const stages : {2, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      INFO(fmt::format("{}, {} stages, ZeRO {}", types.name, stages, stage));
      REQUIRE(bits_of(train_on(data * stages, text(stage, stages), options, true).front()) == bits_of(base));
    }
  }
}

TEST_CASE("delayed updates: one stage trains by actions as by micro-steps, with every schedule") {
  auto const text = [](int stage, char const* schedule) {
    return file(bf16_types, stage, micro_steps, "every_micro_step", movements[stage],
                fmt::format(R"(, "delayed_update": true, "pipeline": {{"schedule": "{}"}})", schedule));
  };
  auto const base = train_on(data, text(0, "1f1b"), {}, false).front();
  for (auto const* const schedule : {"gpipe", "1f1b", "zb_h1"}) {
    for (int stage = 0; stage <= 2; ++stage) {
      INFO(fmt::format("{}, ZeRO {}", schedule, stage));
      REQUIRE(bits_of(train_on(data, text(stage, schedule), {}, true).front()) == bits_of(base));
    }
  }
}

TEST_CASE("a program's own schedule trains like one stage") {
  Folder const folder;
  auto const path = folder.path() / "schedule.csv";
  // Mixes divided and whole backward actions, with two chunks per stage, one micro-step after the other.
  std::ofstream{path} << "0F0,2F0,2B0,0I0,0W0, 0F1,2F1,2I1,2W1,0B1,,0F2,2F2,2B2,0B2,0F3,2F3,2B3,0B3\n"
                         "1F0,3F0,3I0,1B0,3W0, 1F1,3F1,3B1,1B1,,1F2,3F2,3B2,1I2,1W2,1F3,3F3,3B3,1B3\n";
  for (auto const& types : {fp32_types, bf16_masters}) {
    auto const base = train_on(data, file_of(types, 0, 1, "1f1b"), {}, false).front();
    for (int const stage : {0, 3}) {
      auto const text = file(types, stage, micro_steps, "every_micro_step", movements[stage],
                             fmt::format(R"(, "mesh": {{"pipeline": 2}}, "pipeline":
                                {{"schedule": "file", "schedule_file": "{}", "chunks": 2}}, "poison": true)",
                                         path.string()));
      REQUIRE(bits_of(train_on(data * 2, text, {}, true).front()) == bits_of(base));
    }
  }
}

TEST_CASE("stages with the first units of the file train like one stage") {
  auto const base = train_on(data, file_of(bf16_masters, 0, 1, "1f1b"), {}, false).front();
  for (int const stage : {0, 3}) {
    for (auto const* const first_units : {"[0, 1]", "[0, 6]"}) {  // the smallest and the largest part that stage 0 can
                                                                  // have
      auto const text =
          file(bf16_masters, stage, micro_steps, "every_micro_step", movements[stage],
               fmt::format(R"(, "mesh": {{"pipeline": 2}}, "pipeline": {{"first_units": {}}})", first_units));
      REQUIRE(bits_of(train_on(data * 2, text, {}, true).front()) == bits_of(base));
    }
  }
}

TEST_CASE("prefetch follows the schedule: after the first step every gather was requested in advance") {
  for (auto const* const schedule : {"gpipe", "1f1b", "zb_h1", "interleaved_1f1b"}) {
    INFO(schedule);
    Movement const ahead{500'000'000, 50'000'000, 2, true};
    auto const text = file(fp32_types, 3, micro_steps, "every_micro_step", ahead, pipeline_of(2, schedule, 2));
    for (auto const& trained : train_on(data * 2, text, {}, true)) {
      for (auto const& report : trained.reports) {
        CHECK(report.prefetch_misses <= (report.step == 1 ? 1 : 0));
        CHECK(report.bubble_ms >= 0);
      }
    }
  }
}

TEST_CASE("a pipeline whose gradients are reduced once trains like one stage") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_summed_in_fp32);
  auto const text = [&](int stage, int stages) { return file_of(types, stage, stages, "1f1b", "", "last_micro_step"); };
  auto const base = train_on(data, text(0, 1), {}, false).front();
  for (int const stage : {0, 1, 2, 3}) {
    INFO(fmt::format("{}, ZeRO {}", types.name, stage));
    REQUIRE(bits_of(train_on(data * 2, text(stage, 2), {}, true).front()) == bits_of(base));
  }
}

TEST_CASE("a pipeline without data-parallel ranks trains like one rank") {
  auto const base = train_on(1, file_of(fp32_types, 0, 1, "1f1b"), {}, false).front();
  for (int const stage : {0, 3}) {
    REQUIRE(bits_of(train_on(3, file_of(fp32_types, stage, 3, "1f1b"), {}, true).front()) == bits_of(base));
  }
}

TEST_CASE("groups of ranks and states on a disk work inside a pipeline") {
  Folder const folder;
  auto const trained = [](int world, Config const& config, bool on_mesh) {
    std::vector<std::vector<std::uint32_t>> all(static_cast<std::size_t>(world));
    REQUIRE(messages_of(run_job(world, [&](Job& job) {
              all[static_cast<std::size_t>(job.rank())] = bits_of(train_chain(job, config, {}, on_mesh));
            })) == "");
    for (auto const& each : all) {
      REQUIRE(each == all.front());
    }
    return all.front();
  };
  auto const file = [&](int stages, std::string const& zero) {
    return Config::from_json(file_of(bf16_types, 3, stages, "1f1b"))
        .with(fmt::format(R"({{"zero_optimization": {{{}}}}})", zero));
  };
  auto const base = trained(4, file(1, R"("stage": 3)"), false);
  auto const disk = fmt::format(
      R"("offload_optimizer": {{"device": "nvme", "nvme_path": "{}"}}, "sub_group_size": 500)", folder.path().string());
  for (auto const& zero :
       {std::string{R"("zero_hpz_partition_size": 2)"}, std::string{R"("mics_shard_size": 2)"}, disk}) {
    INFO(zero);
    REQUIRE(trained(8, file(2, zero), true) == base);
  }
}

TEST_CASE("random pipelines train like one stage") {
  auto const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  auto const one_of = [&](auto const&... values) {
    std::array const all{values...};
    return all[random() % all.size()];
  };
  int const trials = 20;
  for (int trial = 0; trial < trials; ++trial) {
    auto const types = types_of_pipelines[random() % std::size(types_of_pipelines)];
    int const stages = one_of(2, 3, 4);
    int const ranks = one_of(1, 2, 3);
    int const stage = one_of(0, 1, 2, 3);
    Movement const move{one_of(1, 300, 2000, 500'000'000), one_of(0, 1, 400, 50'000'000), one_of(1, 2, 4),
                        one_of(0, 1) == 1};
    std::string const interleaved = "interleaved_1f1b";
    auto const schedule = one_of(std::string{"gpipe"}, std::string{"1f1b"}, std::string{"zb_h1"},
                                 stages == 4 ? std::string{"1f1b"} : interleaved);
    auto const* const reduce = one_of("every_micro_step", "last_micro_step");
    auto const* const checks = one_of("", R"(, "poison": true)", R"(, "check": true)");
    int const steps_of_update = schedule == interleaved ? stages * one_of(1, 2) : one_of(1, 2, 3, 7);
    int const chunks = one_of(2, stages == 2 ? 3 : 2);
    auto const text = [&](int count) {
      return file(types, count == 1 ? 0 : stage, steps_of_update, reduce, move,
                  pipeline_of(count, schedule, chunks) + (count == 1 ? "" : checks));
    };
    INFO(fmt::format("{}, {} stages of {} ranks:\n{}", types.name, stages, ranks, text(stages)));
    auto const options = options_of(types, one_of(Chain::Ties::near, Chain::Ties::across));
    auto const base = train_on(ranks, text(1), options, false).front();
    REQUIRE(bits_of(train_on(ranks * stages, text(stages), options, true).front()) == bits_of(base));
  }
}

TEST_CASE("a pipeline clips by the norm of all stages") {
  // Otherwise the tests above might pass only because nothing is clipped.
  auto const text = file_of(fp32_types, 1, 2, "1f1b");
  auto const clipped = train_on(4, text, {}, true).front();
  CHECK(clipped.reports.front().grad_norm > 0.5F);
  std::vector<std::uint32_t> without;
  auto const config = Config::from_json(text).with(R"({"gradient_clipping": 0})");
  auto const outcome = run_job(4, [&](Job& job) {
    auto const trained = train_chain(job, config, {}, true);
    if (job.rank() == 0) {
      without = bits_of(trained);
    }
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK(without != bits_of(clipped));
}

}  // namespace zeroth::testing
