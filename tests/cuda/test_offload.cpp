// SPDX-License-Identifier: Apache-2.0
/// Ranks on a GPU whose masters and optimizer states are in the host's memory, all or a part of them, train as stage 0
/// on the CPU does, bit for bit: at every stage, in groups, by tiles of any size, however they come and go.
#include <fmt/format.h>

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
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

std::unique_ptr<device::Device> gpu(int /*rank*/) { return device::make_cuda_device(0); }

/// In the end, of ranks on one GPU.
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

/// Another one with each call.
class NextTiles {
 public:
  [[nodiscard]] OnDisk const& operator()() { return on_disks[next_++ % std::size(on_disks)]; }

 private:
  std::size_t next_ = 0;
};

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

TEST_CASE("states in the host's memory have the bits of stage 0 on the CPU") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  if (sanitized && types.name != bf16_types.name) {
    return;
  }
  NextTiles next;
  for (int const world : {1, 3}) {
    auto const base = ended(world, plain(types, 0, movements[1]));
    for (int stage = 0; stage <= 3; ++stage) {
      for (auto const& move : movements) {
        if (world == 1 && &move != &movements[stage]) {
          continue;
        }
        auto const& as = next();
        INFO(fmt::format("{} ranks, {}, stage {}, overlap {}; {}", world, types.name, stage, move.overlap, as.name()));
        auto const* const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
        REQUIRE(ended_on_gpu(world, in_host_memory(plain(types, stage, move, poison), as)) == base);
      }
    }
  }
}

TEST_CASE("states in the host's memory are those of stage 0 in the end, by every optimizer") {
  auto const rule = GENERATE(from_range(all_rules()));
  NextTiles next;
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& types = stage % 2 == 0 ? bf16_types : bf16_masters_and_moments;
    if (sanitized && stage > 1) {
      return;
    }
    auto const& as = next();
    INFO(fmt::format("{}, {}, stage {}; {}", rule.name, types.name, stage, as.name()));
    auto const of = [&](int number) { return plain(types, number, movements[stage], "", rule.optimizer); };
    REQUIRE(ended_on_gpu(2, in_host_memory(of(stage), as)) == ended(2, of(0)));
  }
}

TEST_CASE("in groups states in the host's memory have the bits of stage 0") {
  auto const types = GENERATE(fp32_types, bf16_masters_and_moments);
  if (sanitized && types.name != fp32_types.name) {
    return;
  }
  NextTiles next;
  auto const base = ended(4, plain(types, 0, movements[1]));
  for (auto const& grouping : groupings) {
    auto const& as = next();
    INFO(fmt::format("{}, {}; {}", types.name, grouping.name(2), as.name()));
    auto const config = in_groups(plain(types, 0, movements[0]), grouping, 2);
    REQUIRE(ended_on_gpu(4, in_host_memory(config, as), {}, {.delays = 3}) == base);
  }
}

TEST_CASE("an overflow leaves states in the host's memory as they were") {
  TrainOptions options;
  options.overflow_at_step = 2;
  auto const base = ended(3, plain(fp16_types, 0, movements[1]), options);
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(ended_on_gpu(3, in_host_memory(plain(fp16_types, stage, movements[2]), on_disks[1]), options) == base);
  }
}

TEST_CASE("copies that come late change nothing, whatever is offloaded in whatever tiles") {
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
    INFO(fmt::format("seed {}, job {}: {} ranks, {}, stage {}, delays {}; {}", seed, job, world, types.name, stage,
                     delays, as.name()));
    auto const base = ended(world, plain(types, 0, movements[1]));
    REQUIRE(ended_on_gpu(world, in_host_memory(plain(types, stage, move), as), {}, {.delays = delays}) == base);
  }
}

TEST_CASE("a run goes on from memory to the host's beside a GPU, and back") {
  auto const types = GENERATE(fp32_types, bf16_masters_and_moments);
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
  NextTiles next;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("{}, stage {}", types.name, stage));
    Folder const folder;
    auto const memory = Config::from_json(varied_file(types, stage));
    auto const other = Config::from_json(varied_file(types, 3 - stage));
    auto const straight = train(2, memory, saving(folder / "straight", steps, steps));
    auto const expected = states_in(folder / "straight/step_00000006");
    train(2, memory, saving(folder / "cpu", at, at));
    on_gpu(in_host_memory(memory, next()), saving(folder / "gpu", at, at));
    CHECK(states_in(folder / "gpu/step_00000003") == states_in(folder / "cpu/step_00000003"));
    auto const there = on_gpu(in_host_memory(other, next()), resuming(folder / "cpu", steps, folder / "there"));
    CHECK(bits_behind(at, there) == bits_behind(at, straight));
    CHECK(states_in(folder / "there/step_00000006") == expected);
    auto const back = train(2, other, resuming(folder / "gpu", steps, folder / "back"));
    CHECK(bits_behind(at, back) == bits_behind(at, straight));
    CHECK(states_in(folder / "back/step_00000006") == expected);
  }
}

TEST_CASE("weights are saved, loaded, read and written where masters are in the host's memory") {
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
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& as = on_disks[stage + 1];
    INFO(fmt::format("stage {}; {}", stage, as.name()));
    begin_on({});
    auto const name = fmt::format("stage {}", stage);
    CHECK(use(in_host_memory(plain(bf16_types, stage, movements[0]), as), name, gpu) == base);
    CHECK(left_on_gpus() == "");
    CHECK(bytes_of_file(folder / name) == bytes_of_file(folder / "base"));
  }
}

TEST_CASE("what is in the host's memory is what was planned, and is gone with the engine") {
  for (auto const& as : on_disks) {
    for (int stage = 0; stage <= 3; ++stage) {
      begin_on({});
      auto const in_memory = small_config(stage, {.more = R"(, "bf16": {"enabled": true})"});
      auto const offloaded = in_host_memory(in_memory, as);
      SmallModel const small;
      auto const planned = plan(small.model, offloaded, 2, {.device = DeviceKind::cuda});
      auto const with_none = plan(small.model, in_memory, 2, {.device = DeviceKind::cuda});
      CHECK(planned.disk.bytes == 0);
      CHECK(with_none.host.bytes == 0);
      std::int64_t pinned[2] = {0, 0};
      std::barrier<> together{2};
      auto const run = [&](Config const& config, PlannedTier const& host, std::int64_t& in_use) {
        auto const outcome = run_job(
            2,
            [&](Job& job) {
              Engine<bf16> engine{job, small.model, config};
              for (int step = 0; step < 3; ++step) {
                static_cast<void>(step_on_gpu(engine, small));
              }
              engine.finish();
              together.arrive_and_wait();
              if (job.rank() == 0) {
                in_use = pinned_bytes();
              }
              together.arrive_and_wait();
              expect(engine.bytes_of_host() == host.bytes, "other memory of the host is taken");
              expect(engine.bytes_on_disk() == 0, "there is a file");
              expect(engine.peak() == engine.planned(), "other memory of the GPU is taken");
            },
            {}, gpu);
        REQUIRE(messages_of(outcome) == "");
        CHECK(left_on_gpus() == "");
      };
      INFO(fmt::format("stage {}; {}", stage, as.name()));
      run(in_memory, with_none.host, pinned[0]);
      run(offloaded, planned.host, pinned[1]);
      CHECK(planned.host.bytes > 0);
#ifndef ZEROTH_ON_GPU  // whose driver does not tell
      CHECK(pinned[1] - pinned[0] == 2 * planned.host.bytes);
#endif
      CHECK(planned.bytes.optimizer < with_none.bytes.optimizer);
      CHECK(planned.bytes.slots - with_none.bytes.slots == planned.host.memory_bytes);
      CHECK(planned.host.bytes_moved <= planned.host.bytes);
      CHECK_THAT(explain_plan(planned), Contains("offload to pinned memory of the host: ratio ") &&
                                            Contains(fmt::format("  of the host{:>14} B", planned.host.bytes)));
    }
  }
}

TEST_CASE("memory of the host that is not there is said on all ranks before anything is allocated") {
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
    CHECK_THAT(message_of(error), Contains("the plan asks for ") &&
                                      Contains("pinned memory of the host for each of 2") &&
                                      Contains("a lower zero_optimization.offload_optimizer.ratio takes less"));
  }
#ifndef ZEROTH_ON_GPU
  CHECK(fake_cuda::calls("cudaMalloc") == 0);
#endif
}

TEST_CASE("what is not offloaded from a GPU is refused, and what to say instead") {
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
             Contains("zero_optimization.offload_optimizer.device is \"nvme\": from a GPU Zeroth has no way to a disk; "
                      "set it to \"cpu\" or \"none\""));
  CHECK_THAT(refused(R"(, "offload_param": {"device": "cpu"})"),
             Contains("zero_optimization.offload_param.device is \"cpu\": Zeroth keeps the parameters of a GPU in its "
                      "memory; set it to \"none\""));
}

}  // namespace zeroth::testing
