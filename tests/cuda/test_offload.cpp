// SPDX-License-Identifier: Apache-2.0
/// Ranks on a GPU with all or some masters and optimizer states in host memory train like stage 0 on the CPU, bit for
/// bit: at every stage, in groups, with tiles of any size and any overlap of their transfers, updated by the GPU or by
/// the host.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/runs.hpp"
#include "cuda/contribute.hpp"
#include "cuda/cuda_access.hpp"
#include "cuda/gpus.hpp"
#include "parity/ended.hpp"
#include "parity/groups.hpp"
#include "parity/tiers.hpp"
#include "support/next.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

std::unique_ptr<device::Device> gpu(int /*rank*/) { return device::make_cuda_device(0); }

/// The final state of ranks on one GPU.
Ended ended_on_gpu(int world, Config const& config, TrainOptions options = {}, Gpus const& gpus = {}) {
  begin_on(gpus);
  options.access = CudaAccess::make;
  auto result = ended(world, config, std::move(options), {}, gpu);
  REQUIRE(left_on_gpus() == "");
  return result;
}

Config plain(Types const& types, int stage, Movement const& move, std::string const& more = "",
             char const* optimizer = R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})") {
  return Config::from_json(file(types, stage, 2, "every_micro_step", move, more, optimizer));
}

std::string bytes_of_file(std::filesystem::path const& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

#ifdef ZEROTH_ON_GPU
std::int64_t pinned_bytes() { return 0; }
#else
std::int64_t pinned_bytes() { return fake_cuda::pinned_bytes(); }
#endif

}  // namespace

TEST_CASE("states in host memory have the bits of stage 0 on the CPU") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  if (sanitized && types.name != bf16_types.name) {
    return;
  }
  Next next{on_disks};
  for (int const world : {1, 3}) {
    auto const base = ended(world, plain(types, 0, movements[1]));
    for (int stage = 0; stage <= 3; ++stage) {
      for (auto const& move : movements) {
        if (world == 1 && &move != &movements[stage]) {
          continue;
        }
        auto const& as = next();
        auto const* const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
        for (auto const* const by : updaters) {
          static Sample sample{7, 3};
          if (sample.leaves_out()) {
            continue;
          }
          INFO(fmt::format("{} ranks, {}, stage {}, overlap {}; {}, by {}", world, types.name, stage, move.overlap,
                           as.name(), by));
          REQUIRE(ended_on_gpu(world, in_host_memory(plain(types, stage, move, poison), as, by)) == base);
        }
      }
    }
  }
}

TEST_CASE("states in host memory end like those of stage 0, with every optimizer") {
  auto const rule = GENERATE(from_range(all_rules()));
  Next next{on_disks};
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& types = stage % 2 == 0 ? bf16_types : bf16_masters_and_moments;
    if (sanitized && stage > 1) {
      return;
    }
    auto const& as = next();
    auto const of = [&](int number) { return plain(types, number, movements[stage], "", rule.optimizer); };
    auto const base = ended(2, of(0));
    for (auto const* const by : updaters) {
      static Sample sample{7, 3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {}, stage {}; {}, by {}", rule.name, types.name, stage, as.name(), by));
      REQUIRE(ended_on_gpu(2, in_host_memory(of(stage), as, by)) == base);
    }
  }
}

TEST_CASE("in groups, states in host memory have the bits of stage 0") {
  auto const types = GENERATE(fp32_types, bf16_masters_and_moments);
  if (sanitized && types.name != fp32_types.name) {
    return;
  }
  Next next{on_disks};
  auto const base = ended(4, plain(types, 0, movements[1]));
  for (auto const& grouping : groupings) {
    auto const& as = next();
    auto const config = in_groups(plain(types, 0, movements[0]), grouping, 2);
    for (auto const* const by : updaters) {
      static Sample sample{7, 3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {}; {}, by {}", types.name, grouping.name(2), as.name(), by));
      REQUIRE(ended_on_gpu(4, in_host_memory(config, as, by), {}, {.delays = 3}) == base);
    }
  }
}

TEST_CASE("states in host memory follow parameters that are fp32, and factors of rates that are set later") {
  auto const types = GENERATE(bf16_types, bf16_masters);
  TrainOptions options;
  options.some_fp32 = true;
  options.begin = [](AnyEngine& engine) {
    engine.set_learning_rate_factors([](std::string const& name) {
      return name.ends_with(".w") ? std::optional{name.starts_with("last") ? 0.0F : 0.5F} : std::nullopt;
    });
    return 0;
  };
  auto const base = ended(2, plain(types, 0, movements[1]), options);
  for (int const stage : {1, 3}) {
    for (auto const* const by : updaters) {
      INFO(fmt::format("{}, stage {}, by {}", types.name, stage, by));
      CHECK(ended_on_gpu(2, in_host_memory(plain(types, stage, movements[2]), on_disks[1], by), options) == base);
    }
  }
}

TEST_CASE("an overflow leaves states in host memory unchanged") {
  TrainOptions options;
  options.overflow_at_step = 2;
  auto const base = ended(3, plain(fp16_types, 0, movements[1]), options);
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const by : updaters) {
      static Sample sample{7, 3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("stage {}, by {}", stage, by));
      CHECK(ended_on_gpu(3, in_host_memory(plain(fp16_types, stage, movements[2]), on_disks[1], by), options) == base);
    }
  }
}

TEST_CASE("late copies change nothing, for any offload and any size of tiles") {
  auto const seed = std::random_device{}();
  std::mt19937 random{seed};
  auto const below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  for (int job = 0; job < (sanitized ? 3 : 16); ++job) {
    auto const stage = job % 4;
    auto const world = 1 + static_cast<int>(below(4));
    auto const& types = all_types[below(std::size(all_types))];
    OnDisk const as{static_cast<double>(below(101)) / 100,
                    1 + static_cast<std::int64_t>(below(9000)),
                    below(2) == 0,
                    below(2) == 0,
                    1 + static_cast<int>(below(20)),
                    4096,
                    1};
    auto const delays = 1 + static_cast<unsigned>(below(1000));
    auto const& move = movements[below(std::size(movements))];
    auto const base = ended(world, plain(types, 0, movements[1]));
    for (auto const* const by : updaters) {
      INFO(fmt::format("seed {}, job {}: {} ranks, {}, stage {}, delays {}; {}, by {}", seed, job, world, types.name,
                       stage, delays, as.name(), by));
      REQUIRE(ended_on_gpu(world, in_host_memory(plain(types, stage, move), as, by), {}, {.delays = delays}) == base);
    }
  }
}

TEST_CASE("a run resumes with its states moved from GPU memory to host memory, and back") {
  auto const types = GENERATE(fp32_types, bf16_masters_and_moments);
  auto const* const by = GENERATE(from_range(std::begin(updaters), std::end(updaters)));
  if (sanitized && types.name != fp32_types.name) {
    return;
  }
  constexpr int at = 3, steps = 6;
  auto const on_gpu = [](Config const& config, TrainOptions options) {
    begin_on({.delays = 2});
    options.access = CudaAccess::make;
    auto result = train(2, config, options, {}, gpu);
    REQUIRE(left_on_gpus() == "");
    return result;
  };
  Next next{on_disks};
  for (int stage = 0; stage <= 3; ++stage) {
    static Sample sample{7, 3};
    if (sample.leaves_out()) {
      continue;
    }
    INFO(fmt::format("{}, stage {}, by {}", types.name, stage, by));
    Folder const folder;
    auto const memory = Config::from_json(varied_file(types, stage));
    auto const other = Config::from_json(varied_file(types, 3 - stage));
    auto const straight = train(2, memory, saving(folder / "straight", steps, steps));
    auto const expected = states_in(folder / "straight/step_00000006");
    train(2, memory, saving(folder / "cpu", at, at));
    on_gpu(in_host_memory(memory, next(), by), saving(folder / "gpu", at, at));
    CHECK(states_in(folder / "gpu/step_00000003") == states_in(folder / "cpu/step_00000003"));
    auto const there = on_gpu(in_host_memory(other, next(), by), resuming(folder / "cpu", steps, folder / "there"));
    CHECK(bits_behind(at, there) == bits_behind(at, straight));
    CHECK(states_in(folder / "there/step_00000006") == expected);
    auto const back = train(2, other, resuming(folder / "gpu", steps, folder / "back"));
    CHECK(bits_behind(at, back) == bits_behind(at, straight));
    CHECK(states_in(folder / "back/step_00000006") == expected);
  }
}

TEST_CASE("weights are saved, loaded, read and written with masters in host memory") {
  Folder const folder;
  auto const use = [&](Config const& config, std::string const& name, MakeDevice const& make_device) {
    std::vector<float> seen;
    auto const outcome = run_job(
        2,
        [&](Job& job) {
          SyntheticModel const synthetic;
          Engine<bf16> engine{job, synthetic.model, config};
          auto const& param = synthetic.blocks[1].trained.front();
          std::vector<float> values(1037);
          for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = 1.0F / static_cast<float>(3 + i);
          }
          engine.write(param, values);
          engine.save_weights(folder / name);
          engine.write(param, std::vector<float>(values.size(), 7));
          engine.load_weights(folder / name);
          std::vector<float> back(values.size());
          engine.read(param, back);
          if (job.rank() == 0) {
            seen = back;
          }
          engine.finish();
        },
        {}, make_device);
    REQUIRE(messages_of(outcome) == "");
    return seen;
  };
  auto const base = use(plain(bf16_types, 0, movements[0]), "base", {});
  CHECK(base.front() == 1.0F / 3);
  int files = 0;
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& as = on_disks[stage + 1];
    for (auto const* const by : updaters) {
      INFO(fmt::format("stage {}; {}, by {}", stage, as.name(), by));
      begin_on({});
      auto const name = fmt::format("file {}", ++files);
      CHECK(use(in_host_memory(plain(bf16_types, stage, movements[0]), as, by), name, gpu) == base);
      CHECK(left_on_gpus() == "");
      CHECK(bytes_of_file(folder / name) == bytes_of_file(folder / "base"));
    }
  }
}

TEST_CASE("memory and copies of the host are as planned, and the memory is freed with the engine") {
  auto const* const by = GENERATE(from_range(std::begin(updaters), std::end(updaters)));
  auto const* const types = GENERATE("", R"(, "bf16": {"enabled": true})");
  bool const by_host = updates_on_host(by);
  for (auto const& as : on_disks) {
    for (int stage = 0; stage <= 3; ++stage) {
      static Sample sample{11, 5};
      if (sample.leaves_out()) {
        continue;
      }
      begin_on({});
      auto const in_memory = small_config(stage, {.more = types});
      auto const offloaded = in_host_memory(in_memory, as, by);
      SmallModel const small;
      auto const planned = plan(small.model, offloaded, 2, {.device = DeviceKind::cuda});
      auto const with_none = plan(small.model, in_memory, 2, {.device = DeviceKind::cuda});
      CHECK(planned.disk.bytes == 0);
      CHECK(with_none.host.bytes == 0);
      std::int64_t pinned[2] = {0, 0};
      std::barrier<> together{2};
      auto const train = [&](auto& engine, PlannedTier const& host) {
        for (int step = 0; step < 3; ++step) {
          static_cast<void>(step_on_gpu(engine, small));
        }
        auto const last = engine.finish();
        expect(last && last->disk_read_bytes == host.read_bytes, "other bytes go to the GPU");
        expect(last && last->disk_written_bytes == host.written_bytes, "other bytes come from the GPU");
        expect(engine.bytes_of_host() == host.bytes, "other memory of the host is taken");
        expect(engine.bytes_on_disk() == 0, "there is a file");
        expect(engine.peak() == engine.planned(), "other memory of the GPU is taken");
      };
      auto const run = [&](Config const& config, PlannedTier const& host, std::int64_t& in_use) {
        auto const outcome = run_job(
            2,
            [&](Job& job) {
              auto const use = [&](auto engine) {
                train(*engine, host);
                together.arrive_and_wait();
                if (job.rank() == 0) {
                  in_use = pinned_bytes();
                }
                together.arrive_and_wait();
              };
              if (*types == '\0') {
                use(std::make_unique<Engine<float>>(job, small.model, config));
              } else {
                use(std::make_unique<Engine<bf16>>(job, small.model, config));
              }
            },
            {}, gpu);
        REQUIRE(messages_of(outcome) == "");
        CHECK(left_on_gpus() == "");
      };
      INFO(fmt::format("stage {}{}; {}, by {}", stage, types, as.name(), by));
      run(in_memory, with_none.host, pinned[0]);
      run(offloaded, planned.host, pinned[1]);
      CHECK(planned.host.bytes > 0);
#ifndef ZEROTH_ON_GPU                                         // a GPU's driver does not report it
      constexpr int of_scalars = sizeof(optim::StepScalars);  // the host reads it if the host updates
      CHECK(pinned[1] - pinned[0] == 2 * (planned.host.bytes + (by_host ? of_scalars : 0)));
#endif
      CHECK(planned.bytes.optimizer < with_none.bytes.optimizer);
      CHECK(planned.bytes.slots - with_none.bytes.slots == planned.host.memory_bytes);
      CHECK(planned.host.read_bytes <= planned.host.bytes);
      CHECK((planned.host.memory_bytes == 0) == by_host);
      CHECK_THAT(explain_plan(planned),
                 Contains(by_host ? "offload to pinned memory of the host, updated by the host: ratio "
                                  : "offload to pinned memory of the host: ratio ") &&
                     Contains(fmt::format("  of the host{:>14} B", planned.host.bytes)));
    }
  }
}

TEST_CASE("a trace has each unit's gradient copy, update by the host and parameter copy") {
  for (bool const beside : {true, false}) {
    begin_on({.delays = 7});
    auto const config = in_host_memory(small_config(3), {1, 1, beside, beside, 1, 4096, 1}, updaters[1]);
    SmallModel const small;
    Timeline timeline;
    auto const outcome = run_job(
        1,
        [&](Job& job) {
          Engine<float> engine{job, small.model, config};
          engine.trace(&timeline);
          static_cast<void>(step_on_gpu(engine, small));
          engine.finish();
        },
        {}, gpu);
    REQUIRE(messages_of(outcome) == "");
    REQUIRE(left_on_gpus() == "");
    auto const spans = timeline.spans();
    auto const of = [&](char const* stream, char const* what, std::string const& unit) {
      auto const found = std::ranges::find_if(
          spans, [&](Span const& span) { return span.stream == stream && span.what == what && span.unit == unit; });
      REQUIRE(found != spans.end());
      return *found;
    };
    for (auto const& unit : small.model.description().units) {
      INFO(fmt::format("unit {}, {}", unit.name, beside ? "beside" : "in line"));
      auto const written = of("write", "write", unit.name);
      auto const updated = of("update", "update", unit.name);
      auto const read = of("read", "read", unit.name);
      CHECK(written.end_us <= updated.begin_us);
      CHECK(updated.end_us <= read.begin_us);
    }
  }
}

TEST_CASE("missing host memory is reported on all ranks before anything is allocated") {
  begin_on({});
  Model model;
  auto const unit = model.unit("large");
  static_cast<void>(model.param(unit, "w", {std::int64_t{1} << 45U}, Constant{0}));
  auto const config = in_host_memory(small_config(3), on_disks[0]);
  auto const outcome = run_job(
      2,
      [&](Job& job) {
        Engine<float> const engine{job, model, config};
      },
      {}, gpu);
  for (auto const& error : outcome) {
    INFO(message_of(error));
    CHECK(holds<ConfigError>(error));
    CHECK_THAT(message_of(error), Contains("the plan needs ") && Contains("pinned host memory for each of 2") &&
                                      Contains("a lower zero_optimization.offload_optimizer.ratio needs less"));
  }
#ifndef ZEROTH_ON_GPU
  CHECK(fake_cuda::calls("cudaMalloc") == 0);
#endif
}

TEST_CASE("offload that GPUs do not support is rejected with what to set instead") {
  auto const refused = [](std::string const& zero) {
    begin_on({});
    auto const config = small_config(3, {.zero = zero});
    SmallModel const small;
    auto const outcome = run_job(
        1,
        [&](Job& job) {
          Engine<float> const engine{job, small.model, config};
        },
        {}, gpu);
    REQUIRE(holds<ConfigError>(outcome.front()));
    return message_of(outcome.front());
  };
  CHECK_THAT(refused(R"(, "offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"})"),
             Contains("zero_optimization.offload_optimizer.device is \"nvme\", which is not supported with GPUs; set "
                      "it to \"cpu\" or \"none\""));
  CHECK_THAT(
      refused(R"(, "offload_param": {"device": "cpu"})"),
      Contains(
          "zero_optimization.offload_param.device is \"cpu\", which is not supported with GPUs; set it to \"none\""));
}

TEST_CASE("on CPUs each rank updates by its own thread") {
  auto const engine_of = [](char const* updater) {
    auto const config = in_host_memory(small_config(3), on_disks[0], updater);
    SmallModel const small;
    auto const outcome = run_job(1, [&](Job& job) {
      Engine<float> const engine{job, small.model, config};
      expect(engine.bytes_of_host() == 0, "states are in a tier");
    });
    return message_of(outcome.front());
  };
  CHECK(engine_of(R"("offload_update": "host")").empty());
  CHECK_THAT(engine_of(updaters[1]),
             Contains("zeroth.offload_update_threads is 3: on a CPU each rank updates by its own "
                      "thread; set it to 1"));
}

}  // namespace zeroth::testing
