// SPDX-License-Identifier: Apache-2.0
/// States on a disk: the space that they use, and the errors on every rank if the disk fails.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "engine/capacity.hpp"
#include "engine/small_model.hpp"
#include "parity/tiers.hpp"
#include "support/catch.hpp"
#include "support/fail_points.hpp"
#include "support/folder.hpp"
#include "support/log.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

Config offloaded(int stage, std::filesystem::path const& folder, int timeout_ms = 120000,
                 OnDisk const& disk = on_disks[1]) {
  return on_disk(small_config(stage, {.more = R"(, "bf16": {"enabled": true})"}), disk, folder)
      .with(fmt::format(R"({{"zeroth": {{"timeout_ms": {}}}}})", timeout_ms));
}

/// Trains two ranks, and calls `between(rank, step)` before each step. Returns the errors of each rank.
template <class F>
Outcome trained(Config const& config, F const& between) {
  return run_job(2, [&](Job& job) {
    SmallModel const small;
    Engine<bf16> engine{job, small.model, config};
    for (int step = 1; step <= 4; ++step) {
      all_micro_steps(engine, small);
      between(job.rank(), step);
      engine.step();
    }
    engine.finish();
  });
}

struct DiskEnds {
  DiskEnds() = default;
  DiskEnds(DiskEnds const&) = delete;
  DiskEnds& operator=(DiskEnds const&) = delete;
  ~DiskEnds() {
    FailPoints::odd_disk({});
    FailPoints::disarm();
  }
};

}  // namespace

TEST_CASE("the engine's file on the disk has the planned size, has no name, and ends with the engine") {
  for (auto const& disk : on_disks) {
    Folder const folder;
    auto const config = offloaded(1, folder.path(), 120000, disk);
    SmallModel const small;
    auto const planned = plan(small.model, config, 2);
    REQUIRE(planned.disk.bytes > 0);
    auto const outcome = run_job(2, [&](Job& job) {
      Engine<bf16> engine{job, small.model, config};
      train(engine, small, 3);
      expect(folder.contents().empty(), "a file has a name");
      // The file system's own data about the file also counts.
      expect(engine.bytes_on_disk() >= planned.disk.bytes, "less is taken");
      expect(engine.bytes_on_disk() <= planned.disk.bytes + (1 << 16), "more is taken");
      expect(engine.peak() == planned.bytes, "other memory is taken");
    });
    CHECK(messages_of(outcome) == "");
    CHECK(folder.contents().empty());
  }
}

TEST_CASE("a report has the time that updates waited for the disk") {
  DiskEnds const ends;
  Folder const folder;
  auto const run = [&](OnDisk const& disk) {
    double io = 0;
    auto const outcome = run_job(1, [&](Job& job) {
      SmallModel const small;
      Engine<bf16> engine{job, small.model, offloaded(0, folder.path(), 120000, disk)};
      for (auto const& report : train(engine, small, 4)) {
        io += report.exposed_io_ms;
        expect(report.exposed_io_ms >= 0 && report.exposed_io_ms <= report.step_ms, "waits are part of a step");
        expect(report.exposed_comm_ms >= 0, "waits for a disk are no communication");
      }
    });
    REQUIRE(messages_of(outcome) == "");
    return io;
  };
  FailPoints::slow_down(std::chrono::milliseconds{20});
  auto const in_line = run(on_disks[4]);
  FailPoints::slow_down(std::chrono::milliseconds{0});
  CHECK(in_line >= 4 * 20);  // each write is waited for, and every step has one
}

TEST_CASE("a failed read ends all ranks, naming file, bytes, state, unit and reason") {
  DiskEnds const ends;
  Folder const folder;
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = trained(offloaded(stage, folder.path()), [&](int rank, int step) {
      if (rank == 0 && step == 2) {
        FailPoints::odd_disk({.folder = folder.path(), .read_error = EIO});
      }
    });
    FailPoints::odd_disk({});
    INFO(messages_of(outcome));
    REQUIRE(outcome[0]);
    REQUIRE(outcome[1]);
    auto const all = messages_of(outcome);
    CHECK_THAT(all, Contains("the states that are offloaded to a file in " + folder.path().string() +
                             ": cannot be read: Input/output error; bytes "));
    CHECK_THAT(all, Contains(" of unit \"block"));
    CHECK((all.find("master of") != all.npos || all.find("exp_avg of") != all.npos ||
           all.find("exp_avg_sq of") != all.npos));
    CHECK(folder.contents().empty());
  }
}

TEST_CASE("any failed write ends all ranks") {
  DiskEnds const ends;
  Folder const folder;
  for (int const number : {1, 2, 7, 20}) {
    for (int const error : {EIO, ENOSPC}) {
      FailPoints::arm(folder.path(), number + 4, error);  // the first calls create the files: open and fallocate of two
      auto const outcome = trained(offloaded(3, folder.path()), [](int, int) {});
      INFO(fmt::format("call {}: {}\n{}", number, FailPoints::failed(), messages_of(outcome)));
      FailPoints::disarm();
      REQUIRE(outcome[0]);
      REQUIRE(outcome[1]);
      CHECK((holds<SystemError>(outcome[0]) || holds<SystemError>(outcome[1])));
      CHECK((holds<PeerError>(outcome[0]) || holds<PeerError>(outcome[1])));  // the other rank gets that error
      auto const all = messages_of(outcome);
      CHECK_THAT(all, Contains(error == EIO ? "Input/output error" : "No space left on device"));
      CHECK(folder.contents().empty());
    }
  }
}

TEST_CASE("a full disk, and a path that is not a folder, are reported at the start on all ranks") {
  DiskEnds const ends;
  Folder const folder;
  SECTION("full") {
    FailPoints::arm(folder.path(), 2, ENOSPC);
    auto const outcome = trained(offloaded(3, folder.path()), [](int, int) {});
    INFO(messages_of(outcome));
    REQUIRE(outcome[0]);
    REQUIRE(outcome[1]);
    CHECK_THAT(messages_of(outcome), Contains("cannot be written: No space left on device"));
  }
  SECTION("a file") {
    auto const outcome = trained(offloaded(3, "/dev/null"), [](int, int) {});
    REQUIRE(outcome[0]);
    REQUIRE(outcome[1]);
    CHECK_THAT(
        messages_of(outcome),
        Contains("zero_optimization.offload_optimizer.nvme_path: cannot create a file in /dev/null: Not a directory"));
    CHECK_THROWS_AS(std::rethrow_exception(outcome[1]), ConfigError);
  }
  CHECK(folder.contents().empty());
}

TEST_CASE("a missing folder is created") {
  Folder const folder;
  auto const outcome = trained(offloaded(3, folder / "made" / "here"), [](int, int) {});
  CHECK(messages_of(outcome) == "");
  CHECK(std::filesystem::is_directory(folder / "made" / "here"));
}

TEST_CASE("on a file system without unnamed files the name is removed at once") {
  DiskEnds const ends;
  Folder const folder;
  FailPoints::arm(folder.path(), 1, EOPNOTSUPP);  // one rank's open
  auto const outcome =
      trained(offloaded(3, folder.path()), [&](int, int) { expect(folder.contents().empty(), "a name"); });
  CHECK(messages_of(outcome) == "");
  CHECK_THAT(FailPoints::failed(), Contains("open "));
}

TEST_CASE("removing the folder during training has no effect") {
  Folder const folder;
  std::filesystem::create_directory(folder / "states");
  auto const outcome = trained(offloaded(3, folder / "states"), [&](int rank, int step) {
    if (rank == 0 && step == 2) {
      std::filesystem::remove_all(folder / "states");
    }
  });
  CHECK(messages_of(outcome) == "");
  CHECK(folder.contents().empty());
}

TEST_CASE("a disk that does not answer ends all ranks at the timeout") {
  DiskEnds const ends;
  Folder const folder;
  auto const disk = GENERATE(on_disks[1], on_disks[4]);
  auto const outcome = trained(offloaded(3, folder.path(), 2000, disk), [&](int rank, int step) {
    if (rank == 0 && step == 2) {
      FailPoints::odd_disk({.folder = folder.path(), .holds = true});
    }
  });
  INFO(disk.name());
  INFO(messages_of(outcome));
  REQUIRE(outcome[0]);
  REQUIRE(outcome[1]);
  CHECK_THAT(messages_of(outcome), Contains("the disk does not answer: ") &&
                                       Contains("1500 ms, three quarters of zeroth.timeout_ms; bytes "));
}

TEST_CASE("transfers that wait behind hanging ones are given up with them") {
  DiskEnds const ends;
  Folder const folder;
  constexpr OnDisk one_request{1, 2048, true, true, 4, 4096, 1};  // other transfers wait for the hanging one
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small{20'000};
    Engine<bf16> engine{job, small.model, offloaded(1, folder.path(), 1000, one_request)};
    for (int step = 1; step <= 4; ++step) {
      all_micro_steps(engine, small);
      if (job.rank() == 0 && step == 2) {
        FailPoints::odd_disk({.folder = folder.path(), .holds = true});
      }
      engine.step();
    }
  });
  INFO(messages_of(outcome));
  REQUIRE(outcome[0]);
  REQUIRE(outcome[1]);
  CHECK_THAT(messages_of(outcome), Contains("the disk does not answer: ") && Contains("750 ms"));
}

TEST_CASE("all states of a tile are transferred at once") {
  DiskEnds const ends;
  Folder const folder;
  constexpr OnDisk in_line{1, 2048, false, false, 1, 4096, 8};
  int held = 0;
  auto const outcome = run_job(1, [&](Job& job) {
    SmallModel const small;
    Engine<bf16> engine{job, small.model, offloaded(1, folder.path(), 120000, in_line)};
    train(engine, small, 1);
    FailPoints::odd_disk({.folder = folder.path(), .holds = true});
    std::jthread const watch{[&] {
      auto const deadline = Clock::now() + std::chrono::seconds{20};
      while ((held = FailPoints::held()) < 3 && Clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      FailPoints::odd_disk({});
    }};
    train(engine, small, 1);
  });
  CHECK(messages_of(outcome) == "");
  CHECK(held == 3);  // the master, and two states of the optimizer
}

TEST_CASE("ranks that wait for a hanging disk end with the job, long before the timeout") {
  DiskEnds const ends;
  Folder const folder;
  auto const disk = GENERATE(on_disks[1], on_disks[4]);
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small;
    Engine<bf16> engine{job, small.model, offloaded(1, folder.path(), 600'000, disk)};
    train(engine, small, 1);
    all_micro_steps(engine, small);
    std::jthread another;  // aborts like a rank that fails elsewhere
    if (job.rank() == 0) {
      FailPoints::odd_disk({.folder = folder.path(), .holds = true});
      another = std::jthread{[&] {
        while (FailPoints::held() == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
        job.communicator().abort("the job is over");
      }};
    }
    engine.step();
    train(engine, small, 2);
  });
  INFO(disk.name());
  INFO(messages_of(outcome));
  REQUIRE(holds<PeerError>(outcome[0]));
  REQUIRE(holds<PeerError>(outcome[1]));
  CHECK_THAT(messages_of(outcome), Contains("the job is over"));
}

TEST_CASE("an engine that measures times can be destroyed while its disk works") {
  DiskEnds const ends;
  Folder const folder;
  Log const log;
  auto const* const table = GENERATE(R"({"wall_clock_breakdown": true})", R"({"comms_logger": {"enabled": true}})",
                                     R"({"flops_profiler": {"enabled": true}})");
  auto const config = offloaded(3, folder.path()).with(table).with(R"({"zero_optimization": {"overlap_comm": true}})");
  INFO(table);
  for (unsigned end = 1; end <= 8; ++end) {
    FailPoints::odd_disk({.folder = folder.path(), .seed = end});
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small{2000};
      Engine<bf16> engine{job, small.model, config};
      all_micro_steps(engine, small);
      engine.step();
    });
    CHECK(messages_of(outcome) == "");
  }
}

TEST_CASE("if a disk refuses direct transfers, all threads use the cache, with a warning") {
  DiskEnds const ends;
  Folder const folder;
  constexpr OnDisk many{1, 2048, true, true, 4, 4096, 8};
  auto const weights_with = [&](bool refuses) {
    FailPoints::odd_disk({.folder = folder.path(), .refuses_direct = refuses});
    std::vector<float> weights;
    auto const outcome = run_job(1, [&](Job& job) {
      SmallModel const small{20'000};
      Engine<bf16> engine{job, small.model, offloaded(0, folder.path(), 120000, many)};
      train(engine, small, 3);
      weights = read_weights(engine, small);
    });
    CHECK(messages_of(outcome) == "");
    return weights;
  };
  auto const direct = weights_with(false);
  Log const log;
  auto const refused = weights_with(true);
  CHECK(refused == direct);
  CHECK(log.count("the file system refused a direct transfer") + log.count("has no direct I/O") >= 1);
}

TEST_CASE("the error names the limit on file sizes, and no signal ends the process") {
  Folder const folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit const little{4096, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  auto const outcome = trained(offloaded(1, folder.path()), [](int, int) {});
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_THAT(messages_of(outcome), Contains("cannot be written: File too large (files of this process may have 4096 "
                                            "bytes: ulimit -f)"));
}

TEST_CASE("partial reads and writes change nothing") {
  DiskEnds const ends;
  auto const train_on = [](Folder const& folder, std::size_t most) {
    FailPoints::odd_disk({.folder = folder.path(), .most = most});
    std::vector<float> weights;
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<bf16> engine{job, small.model, offloaded(3, folder.path(), 120000, on_disks[0])};
      train(engine, small, 4);
      auto const read = read_weights(engine, small);
      if (job.rank() == 0) {
        weights = read;
      }
    });
    FailPoints::odd_disk({});
    REQUIRE(messages_of(outcome) == "");
    return weights;
  };
  Folder const folder;
  auto const whole = train_on(folder, 0);
  CHECK(train_on(folder, 4096) == whole);
  CHECK(train_on(folder, 512) == whole);
  CHECK(train_on(folder, 100) == whole);  // the rest is not a whole block
}

namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

/// For ranks that each hold `plan`.
std::string shortage_of(shard::MemoryPlan const& plan, Settings const& settings,
                        std::vector<engine::RankCapacity> ranks, bool in_one_process) {
  for (auto& rank : ranks) {
    rank.needs = engine::needs_of(plan, settings);
  }
  return engine::shortage(plan, settings, ranks, in_one_process);
}

std::string shortage(std::vector<engine::RankCapacity> const& ranks, bool in_one_process, OffloadDevice device,
                     std::int64_t buffer_bytes = 0) {
  shard::MemoryPlan plan;
  plan.bytes.optimizer = 60 << 20;
  plan.bytes.parameters = 40 << 20;
  plan.disk.bytes = device == OffloadDevice::nvme ? 200 << 20 : 0;
  Settings settings;
  settings.stage = 3;
  settings.offload.optimizer = device;
  settings.offload.folder = "/nvme";
  settings.checkpoint.buffer_bytes = buffer_bytes;
  return shortage_of(plan, settings, ranks, in_one_process);
}

}  // namespace

TEST_CASE("a shortage of memory or disk is reported before anything is allocated") {
  auto const mib = [](std::uint64_t count) { return count << 20U; };
  engine::Capacity const all{unlimited, unlimited, unlimited};
  using engine::RankCapacity;
  CHECK(shortage({{1, all}, {1, all}}, false, OffloadDevice::nvme).empty());
  // Two ranks share one machine; a third one has another.
  std::vector<RankCapacity> ranks{{1, {mib(200), unlimited, unlimited}},
                                  {1, {mib(200), unlimited, unlimited}},
                                  {2, {mib(100), unlimited, unlimited}}};
  CHECK(shortage(ranks, false, OffloadDevice::none).empty());
  ranks[1].capacity.memory_of_machine -= 1;
  CHECK_THAT(
      shortage(ranks, false, OffloadDevice::none),
      Contains("100.0 MiB of memory for each of 2 ranks on rank 1's machine, but 200.0 MiB are available there") &&
          Contains("offload_optimizer with device \"nvme\" moves 60.0 MiB of each rank's to a disk"));
  // A process limit applies to each rank, or to all of them if they are threads.
  std::vector<RankCapacity> const limited{{1, {unlimited, mib(150), unlimited}}, {1, {unlimited, mib(150), unlimited}}};
  CHECK(shortage(limited, false, OffloadDevice::none).empty());
  CHECK_THAT(shortage(limited, true, OffloadDevice::none),
             Contains("within the limits of the process of all ranks (ulimit -v"));
  std::vector<RankCapacity> exact{{1, {unlimited, mib(200), unlimited}}, {1, {unlimited, mib(200), unlimited}}};
  CHECK(shortage(exact, true, OffloadDevice::none).empty());
  exact[1].capacity.memory_of_process -= 1;
  CHECK_THAT(shortage(exact, true, OffloadDevice::none),
             Contains("within the limits of the process of all ranks (ulimit -v"));
  // Disk space is per machine.
  std::vector<RankCapacity> const full{{1, {unlimited, unlimited, mib(399)}}, {1, {unlimited, unlimited, mib(399)}}};
  CHECK_THAT(shortage(full, false, OffloadDevice::nvme), Contains("200.0 MiB of disk in /nvme") &&
                                                             Contains("for each of 2 ranks") &&
                                                             Contains("399.0 MiB are free"));
  CHECK(shortage(full, false, OffloadDevice::none).empty());
  // The buffers of saves count.
  std::vector<RankCapacity> const tight{{1, {mib(111), unlimited, unlimited}}};
  CHECK(shortage(tight, false, OffloadDevice::none, 8 << 20).empty());
  CHECK_THAT(shortage(tight, false, OffloadDevice::none, 12 << 20),
             Contains("112.0 MiB of memory, 12.0 MiB of it for saves (zeroth.checkpoint.buffer_bytes), for each of 1 "
                      "rank on rank 0's machine, but 111.0 MiB are available there"));
}

TEST_CASE("ranks of all pipeline stages on a machine count with the memory of their stage") {
  auto const mib = [](std::uint64_t count) { return count << 20U; };
  shard::MemoryPlan plan;
  plan.bytes.parameters = 100 << 20;
  Settings settings;
  settings.stage = 3;
  auto const rank = [&](std::uint64_t machine, std::uint64_t memory, std::uint64_t needed) {
    return engine::RankCapacity{machine, {memory, unlimited, unlimited, unlimited}, {mib(needed), 0, 0}};
  };
  // Ranks 0 and 2 share a machine, as do 1 and 3.
  std::vector ranks{rank(1, mib(300), 100), rank(2, mib(250), 100), rank(1, mib(300), 150), rank(2, mib(250), 150)};
  CHECK(engine::shortage(plan, settings, ranks, false).empty());
  ranks[3].capacity.memory_of_machine -= 1;
  CHECK_THAT(engine::shortage(plan, settings, ranks, false),
             Contains("the plans of 2 ranks on rank 3's machine, of several pipeline stages, need 250.0 MiB of memory "
                      "together, but 250.0 MiB are available there"));
  ranks[3].capacity = {mib(250), mib(499), unlimited, unlimited};
  CHECK(engine::shortage(plan, settings, ranks, false).empty());
  CHECK_THAT(engine::shortage(plan, settings, ranks, true),
             Contains("but 499.0 MiB are available within the limits of the process of all ranks"));
  std::vector disks{rank(1, unlimited, 0), rank(1, unlimited, 0)};
  disks[0].needs.disk = mib(10);
  disks[1].needs.disk = mib(30);
  disks[0].capacity.disk = disks[1].capacity.disk = mib(40);
  CHECK(engine::shortage(plan, settings, disks, false).empty());
  disks[1].capacity.disk -= 1;
  CHECK_THAT(engine::shortage(plan, settings, disks, false), Contains("need 40.0 MiB of disk in"));
  for (auto const& each : ranks) {
    CHECK(engine::RankCapacity::of(each.numbers()).numbers() == each.numbers());
  }
}

TEST_CASE("with a GPU, host memory must hold only the offloaded states") {
  auto const mib = [](std::uint64_t count) { return count << 20U; };
  shard::MemoryPlan plan;
  plan.bytes.parameters = 4000LL << 20;  // in the GPU's memory
  plan.disk.tier = shard::Tier::host;
  plan.disk.bytes = 100 << 20;
  Settings settings;
  settings.stage = 2;
  settings.offload.optimizer = OffloadDevice::cpu;
  std::vector<engine::RankCapacity> ranks{{1, {mib(200), unlimited, 0}}, {1, {mib(200), unlimited, 0}}};
  CHECK(shortage_of(plan, settings, ranks, false).empty());
  ranks[1].capacity.memory_of_machine -= 1;
  CHECK_THAT(shortage_of(plan, settings, ranks, false),
             Contains("the plan needs 100.0 MiB of pinned host memory for each of 2 ranks on rank 1's machine, but "
                      "200.0 MiB are available there") &&
                 Contains("a lower zero_optimization.offload_optimizer.ratio needs less; a higher"));
}

TEST_CASE("two files on one disk need room for both") {
  auto const mib = [](std::uint64_t count) { return count << 20U; };
  shard::MemoryPlan plan;
  plan.disk.bytes = 200 << 20;
  plan.parameters_disk.bytes = 100 << 20;
  Settings settings;
  settings.stage = 3;
  settings.offload.optimizer = settings.offload.parameters = OffloadDevice::nvme;
  settings.offload.folder = "/states";
  settings.offload.parameter_folder = "/parameters";
  auto const shortage = [&](std::uint64_t disk, std::uint64_t parameters_disk, bool one_disk) {
    std::vector<engine::RankCapacity> const ranks{{1, {unlimited, unlimited, disk, parameters_disk, one_disk}}};
    return shortage_of(plan, settings, ranks, false);
  };
  CHECK(shortage(mib(200), mib(100), false).empty());
  CHECK(shortage(mib(300), mib(300), true).empty());
  CHECK_THAT(shortage(mib(299), mib(299), true),
             Contains("300.0 MiB of disk in /states (zero_optimization.offload_optimizer.nvme_path) and /parameters "
                      "(zero_optimization.offload_param.nvme_path)") &&
                 Contains("299.0 MiB are free"));
  CHECK_THAT(shortage(mib(199), mib(100), false), Contains("200.0 MiB of disk in /states"));
  CHECK_THAT(shortage(mib(200), mib(99), false),
             Contains("100.0 MiB of disk in /parameters") && Contains("a higher max_in_cpu needs less"));
  CHECK(engine::measure_capacity("/", "/").one_disk);
  CHECK_FALSE(engine::measure_capacity("/", "/proc").one_disk);
  CHECK_FALSE(engine::measure_capacity({}, {}).one_disk);
}

TEST_CASE("the memory that is left is known") {
  auto const left = engine::measure_capacity("/");
  CHECK(left.memory_of_machine > 0);
  CHECK(left.memory_of_machine < unlimited);
  CHECK(left.disk < unlimited);
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  struct rlimit lower = before;
  lower.rlim_cur = std::uint64_t{1} << 40U;
  REQUIRE(::setrlimit(RLIMIT_AS, &lower) == 0);
  auto const limited = engine::measure_capacity({});
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(limited.memory_of_process < std::uint64_t{1} << 40U);
  CHECK(limited.memory_of_process > 0);
  CHECK(limited.disk == unlimited);
}

TEST_CASE("a model that is too large for its process is rejected on every rank before anything is allocated") {
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  Model model;
  auto const unit = model.unit("large");
  static_cast<void>(model.param(unit, "w", {std::int64_t{1} << 36U}, Constant{0}));
  struct rlimit lower = before;
  lower.rlim_cur = std::uint64_t{1} << 36U;
  REQUIRE(::setrlimit(RLIMIT_AS, &lower) == 0);
  auto const outcome = run_job(2, [&](Job& job) { Engine<float> const engine{job, model, small_config(3)}; });
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  for (auto const& error : outcome) {
    INFO(message_of(error));
    CHECK(holds<ConfigError>(error));
    CHECK_THAT(message_of(error), Contains("the plan needs ") && Contains("(ulimit -v, ulimit -d)"));
  }
}

TEST_CASE("the CPU as offload device changes nothing, and the plan says so") {
  auto const with = small_config(3).with(
      R"({"zero_optimization": {"offload_optimizer": {"device": "cpu", "pin_memory": true}, "offload_param": {"device": "cpu"}}})");
  SmallModel const small;
  auto const planned = plan(small.model, with, 2);
  CHECK(planned.bytes == plan(small.model, small_config(3), 2).bytes);
  CHECK_THAT(explain_plan(planned), Contains("on a CPU states are in its memory already, and nothing changes"));
}

}  // namespace zeroth::testing
