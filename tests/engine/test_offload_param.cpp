// SPDX-License-Identifier: Apache-2.0
/// Parameters on a disk: their disk space and memory, their reads and writes, their return into use by every call of an
/// engine, and the errors on every rank if the disk fails.
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/random_nest.hpp"
#include "parity/tiers.hpp"
#include "support/catch.hpp"
#include "support/fail_points.hpp"
#include "support/folder.hpp"
#include "support/log.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr char const* bf16_file = R"(, "bf16": {"enabled": true})";
constexpr std::int64_t wide = 20'000;  // elements per unit: several pieces of 2048 on two ranks

struct DiskOfParametersEnds {
  DiskOfParametersEnds() = default;
  DiskOfParametersEnds(DiskOfParametersEnds const&) = delete;
  DiskOfParametersEnds& operator=(DiskOfParametersEnds const&) = delete;
  ~DiskOfParametersEnds() {
    FailPoints::odd_disk({});
    FailPoints::disarm();
    FailPoints::slow_down(std::chrono::milliseconds{0});
  }
};

Config with_parameters(std::filesystem::path const& folder, ParametersOnDisk const& disk, SmallFile const& file = {}) {
  return parameters_on_disk(small_config(3, file), disk, folder);
}

/// Trains, and calls `between(rank, step)` before each step. Returns the errors of each rank.
template <class F>
Outcome train_bf16(Config const& config, F const& between, int world = 2) {
  return run_job(world, [&](Job& job) {
    SmallModel const small{wide};
    Engine<bf16> engine{job, small.model, config};
    for (int step = 1; step <= 4; ++step) {
      all_micro_steps(engine, small);
      between(job.rank(), step);
      engine.step();
    }
    engine.finish();
  });
}

template <Element T>
std::vector<float> weights_after(Config const& config, std::int64_t count, int steps = 4) {
  std::vector<float> weights;
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small{count};
    Engine<T> engine{job, small.model, config};
    train(engine, small, steps);
    auto const read = read_weights(engine, small);
    if (job.rank() == 0) {
      weights = read;
    }
  });
  REQUIRE(messages_of(outcome) == "");
  return weights;
}

/// Checks that disk space, reads and writes equal the plan.
template <Element T>
void check_plan(Config const& config, std::filesystem::path const& folder, int world = 2) {
  SmallModel const small{wide};
  auto const planned = plan(small.model, config, world);
  REQUIRE(planned.parameters_disk.bytes > 0);
  auto const read = planned.parameters_disk.read_bytes + planned.disk.read_bytes;
  auto const written = planned.parameters_disk.written_bytes + planned.disk.written_bytes;
  std::vector<StepReport> reports;
  auto const outcome = run_job(world, [&](Job& job) {
    Engine<T> engine{job, small.model, config};
    auto const of_rank = train(engine, small, 5);
    expect(std::filesystem::is_empty(folder), "a file has a name");
    auto const files = planned.disk.bytes > 0 ? 2 : 1;
    expect(engine.bytes_on_disk() >= planned.bytes_on_disk(), "less is taken");
    expect(engine.bytes_on_disk() <= planned.bytes_on_disk() + files * (1 << 16), "more is taken");
    expect(engine.peak() == planned.bytes, "other memory is taken");
    expect(engine.planned() == planned.bytes, "another plan");
    if (job.rank() == 0) {
      reports = of_rank;
    }
  });
  REQUIRE(messages_of(outcome) == "");
  for (std::size_t step = 1; step < reports.size(); ++step) {  // the first step has additional reads
    INFO(fmt::format("step {}\n{}", step + 1, explain_plan(planned)));
    CHECK(reports[step].disk_read_bytes == read);
    CHECK(reports[step].disk_written_bytes == written);
  }
}

}  // namespace

TEST_CASE("memory, disk, reads and writes of parameters on a disk are exactly as planned") {
  Folder const folder;
  for (auto const& disk : parameters_on_disks) {
    for (auto const* const zero :
         {"", R"(, "overlap_comm": false)", R"(, "stage3_prefetch_bucket_size": 0)",
          R"(, "stage3_prefetch_bucket_size": 25000)", R"(, "stage3_max_live_parameters": 45000)"}) {
      INFO(disk.name() << zero);
      check_plan<bf16>(with_parameters(folder.path(), disk, {.zero = zero, .more = bf16_file}), folder.path());
      check_plan<float>(with_parameters(folder.path(), disk, {.accumulation = 3, .zero = zero}), folder.path());
    }
    auto const both = with_parameters(folder.path(), disk, {.more = bf16_file});
    check_plan<bf16>(on_disk(both, on_disks[1], folder.path()), folder.path());
  }
  CHECK(folder.contents().empty());
}

TEST_CASE("reads of nested models with frozen and tied units are as planned") {
  Folder const folder;
  for (unsigned seed = 0; seed < 40; ++seed) {
    RandomNest const nest{seed};
    auto const config = parameters_on_disk(nest_config(seed, 3, false), parameters_on_disks[seed % 2], folder.path());
    auto const planned = plan(nest.model(), config, 2).parameters_disk.read_bytes;
    std::vector<StepReport> reports;
    auto const outcome = run_job(2, [&](Job& job) {
      auto const of_rank = nest.reports(job, config, 5);
      if (job.rank() == 0) {
        reports = of_rank;
      }
    });
    REQUIRE(messages_of(outcome) == "");
    for (std::size_t step = 2; step < reports.size(); ++step) {  // the first steps settle which frozen units stay
                                                                 // gathered
      INFO(fmt::format("model {}, step {}", seed, step + 1));
      CHECK(reports[step].disk_read_bytes == planned);
    }
  }
}

TEST_CASE("reads of a model without trainable parameters are as planned") {
  Folder const folder;
  Model model{3};
  std::vector<Unit> units;
  for (auto const* const name : {"a", "b", "c"}) {
    units.push_back(model.unit(name));
    static_cast<void>(
        model.param(units.back(), fmt::format("{}.w", name), {20'000}, Constant{1}, {.trainable = false}));
  }
  auto const config =
      with_parameters(folder.path(), parameters_on_disks[0], {.zero = R"(, "stage3_max_live_parameters": 0)"});
  auto const planned = plan(model, config, 2).parameters_disk.read_bytes;
  CHECK(planned > 0);
  auto const outcome = run_job(2, [&](Job& job) {
    Engine<float> engine{job, model, config};
    for (int step = 1; step <= 4; ++step) {
      for (auto micro : engine.micro_steps()) {
        for (auto const& unit : units) {
          static_cast<void>(micro.forward(unit));
        }
        static_cast<void>(micro.report_loss(1));
        for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
          static_cast<void>(micro.backward(*unit));
        }
      }
      engine.step();
      expect(engine.finish()->disk_read_bytes == planned || step == 1, "other reads than planned");
    }
  });
  CHECK(messages_of(outcome) == "");
}

TEST_CASE("in groups, too, reads and writes of parameters on a disk are as planned") {
  Folder const folder;
  for (auto const& disk : parameters_on_disks) {
    for (auto const* const group : {R"("zero_hpz_partition_size": 2)", R"("mics_shard_size": 2)"}) {
      for (auto const* const zero : {"", R"(, "overlap_comm": false)"}) {
        INFO(disk.name() << group << zero);
        auto const in = fmt::format(", {}{}", group, zero);
        auto const of_bf16 = with_parameters(folder.path(), disk, {.zero = in.c_str(), .more = bf16_file});
        check_plan<bf16>(of_bf16, folder.path(), 4);
        check_plan<bf16>(on_disk(of_bf16, on_disks[1], folder.path()), folder.path(), 4);
        check_plan<float>(with_parameters(folder.path(), disk, {.accumulation = 3, .zero = in.c_str()}), folder.path(),
                          4);
      }
    }
  }
  SmallModel const small{wide};
  auto const of = [&](char const* group) {
    return plan(small.model, with_parameters(folder.path(), {0, 6000, 5, 4096, 4}, {.zero = group, .more = bf16_file}),
                4)
        .parameters_disk;
  };
  auto const [hpz, mics] = std::pair{of(R"(, "zero_hpz_partition_size": 2)"), of(R"(, "mics_shard_size": 2)")};
  constexpr std::int64_t slice = 3 * 4096;    // 5000 elements of 2 bytes, in whole blocks
  CHECK(hpz.written_bytes == 3 * 2 * slice);  // written for this rank and for its replica
  CHECK(mics.written_bytes == 3 * 5 * 4096);
  CHECK(hpz.buffers == mics.buffers + 2);  // two tiles in memory, with two slices each
}

TEST_CASE("a disk that fails in one group ends all ranks, if replicas exchange parameters for the disk") {
  DiskOfParametersEnds const ends;
  Folder const folder;
  for (auto const* const zero : {"", R"(, "overlap_comm": false)"}) {
    auto const config =
        with_parameters(folder.path(), parameters_on_disks[1], {.zero = zero, .zeroth = "", .more = bf16_file})
            .with(R"({"zero_optimization": {"zero_hpz_partition_size": 2},
                                      "zeroth": {"timeout_ms": 2000}})");
    for (bool const holds : {false, true}) {
      FailPoints::Disk const odd{.folder = folder.path(), .read_error = holds ? 0 : EIO, .holds = holds};
      auto const outcome = train_bf16(
          config,
          [&](int rank, int step) {
            if (rank == 3 && step == 2) {
              FailPoints::odd_disk(odd);
            }
          },
          4);
      FailPoints::odd_disk({});
      INFO(zero << ": " << messages_of(outcome));
      for (auto const& of_rank : outcome) {
        CHECK(of_rank);
      }
      CHECK_THAT(messages_of(outcome),
                 Contains(holds ? "the disk does not answer: " : "cannot be read: Input/output error") &&
                     Contains("parameters of unit \"block"));
      CHECK(folder.contents().empty());
    }
  }
}

TEST_CASE("pieces of any size give the weights of parameters in memory") {
  Folder const folder;
  auto const bits = weights_after<bf16>(small_config(3, {.more = bf16_file}), wide);
  auto const numbers = weights_after<float>(small_config(3), wide);
  for (std::int64_t const buffer : {1, 2048, 6000, 100'000}) {
    for (int const buffers : {1, 2, 5, 40}) {
      for (auto const* const zero : {"", R"(, "overlap_comm": false)", R"(, "stage3_prefetch_bucket_size": 25000)"}) {
        static Sample sample{11, 5};
        if (sample.leaves_out()) {
          continue;
        }
        ParametersOnDisk const disk{0, buffer, buffers, 4096, 4};
        INFO(disk.name() << zero);
        auto const of_bf16 = with_parameters(folder.path(), disk, {.zero = zero, .more = bf16_file});
        auto const of_fp32 = with_parameters(folder.path(), disk, {.zero = zero});
        CHECK((weights_after<bf16>(of_bf16, wide) == bits));
        CHECK((weights_after<float>(of_fp32, wide) == numbers));
        CHECK((weights_after<float>(on_disk(of_fp32, on_disks[3], folder.path()), wide) == numbers));
      }
    }
  }
}

TEST_CASE("max_in_cpu keeps the first units of forward in memory, and needs no file if these are all") {
  SmallModel const small{wide};
  Folder const folder;
  auto const planned = [&](std::int64_t in_memory) {
    return plan(small.model, with_parameters(folder.path(), {in_memory, 2048, 5, 4096, 4}, {.more = bf16_file}), 2);
  };
  auto const in_memory = plan(small.model, small_config(3, {.more = bf16_file}), 2);
  CHECK(planned(0).bytes.parameters == 0);
  CHECK(planned(0).parameters_disk.units == 3);
  CHECK(planned(wide).parameters_disk.units == 2);  // a rank has half of each unit
  CHECK(planned(wide).bytes.parameters > 0);
  CHECK(planned(1 << 20).parameters_disk.bytes == 0);
  CHECK(planned(1 << 20).bytes == in_memory.bytes);
  CHECK_THAT(explain_plan(planned(1 << 20)), Contains("none are there, max_in_cpu keeps 1048576 elements"));
  CHECK_THAT(explain_plan(planned(0)), Contains("parameters on a disk: in ") && Contains("of 3 flat units; 5 buffers"));
}

TEST_CASE("values, weight files and checkpoints contain parameters on a disk like those in memory") {
  Folder const folder;
  auto const check = [&]<class T>(std::type_identity<T>, char const* more) {
    auto const base = small_config(3, {.more = more});
    std::vector<float> in_memory;
    auto const run = [&](Config const& config, std::string const& name) {
      std::vector<float> seen;
      auto const outcome = run_job(2, [&](Job& job) {
        SmallModel const small{wide};
        Engine<T> engine{job, small.model, config};
        auto const see = [&](std::vector<float> const& values) {
          if (job.rank() == 0) {
            seen.insert(seen.end(), values.begin(), values.end());
          }
        };
        train(engine, small, 2);
        std::vector<float> values(static_cast<std::size_t>(wide));
        engine.read(small.weights[1], std::span{values});
        see(values);
        values.assign(values.size(), 0.375F);
        engine.write(small.weights[1], std::span<float const>{values});
        std::vector<float> fixed(50);
        engine.read(small.frozen, std::span{fixed});
        see(fixed);
        fixed.assign(fixed.size(), -1.5F);
        engine.write(small.frozen, std::span<float const>{fixed});
        see(read_weights(engine, small));
        train(engine, small, 1);
        engine.save_weights(folder / (name + ".safetensors"));
        engine.save(folder / name).wait();
        train(engine, small, 2);
        see(read_weights(engine, small));
        engine.load_weights(folder / (name + ".safetensors"));
        see(read_weights(engine, small));
        engine.restore(folder / name);
        train(engine, small, 2);
        see(read_weights(engine, small));
        engine.read(small.frozen, std::span{fixed});
        see(fixed);
      });
      REQUIRE(messages_of(outcome) == "");
      std::filesystem::remove_all(folder / name);
      return seen;
    };
    auto const expected = run(base, "memory");
    std::filesystem::create_directory(folder / "disk");
    for (auto const& disk : parameters_on_disks) {
      INFO(disk.name());
      auto const config = parameters_on_disk(base, disk, folder / "disk");
      CHECK((run(config, "one") == expected));
      CHECK((run(on_disk(config, on_disks[1], folder / "disk"), "both") == expected));
    }
  };
  SECTION("bf16 with masters") { check(std::type_identity<bf16>{}, bf16_file); }
  SECTION("fp32, whose parameters are the masters") { check(std::type_identity<float>{}, ""); }
}

TEST_CASE("a checkpoint that is written during training has the parameters of its step") {
  Folder const folder;
  std::filesystem::create_directory(folder / "disk");
  std::vector<float> saved, restored;
  auto const config = with_parameters(folder / "disk", parameters_on_disks[1]);
  DiskOfParametersEnds const ends;
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small{wide};
    Engine<float> engine{job, small.model, config};
    train(engine, small, 2);
    auto const now = read_weights(engine, small);
    FailPoints::slow_down(std::chrono::milliseconds{2});
    auto saving = engine.save(folder / "saved");
    train(engine, small, 3);
    saving.wait();
    FailPoints::slow_down(std::chrono::milliseconds{0});
    engine.restore_latest(folder / "saved");
    auto const then = read_weights(engine, small);
    if (job.rank() == 0) {
      saved = now;
      restored = then;
    }
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK((saved == restored));
}

TEST_CASE("a report has the time that gathers waited for the disk, without communication") {
  DiskOfParametersEnds const ends;
  Folder const folder;
  double io = 0;
  auto const config =
      with_parameters(folder.path(), parameters_on_disks[0], {.zero = R"(, "overlap_comm": false)", .more = bf16_file});
  FailPoints::slow_down(std::chrono::milliseconds{20});
  auto const outcome = run_job(1, [&](Job& job) {
    SmallModel const small;
    Engine<bf16> engine{job, small.model, config};
    for (auto const& report : train(engine, small, 4)) {
      io += report.exposed_io_ms;
      expect(report.exposed_io_ms >= 0 && report.exposed_io_ms <= report.step_ms, "waits are part of a step");
      expect(report.exposed_comm_ms >= 0, "waits for a disk are no communication");
    }
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK(io >= 4 * 3 * 20);  // each write of each unit is waited for
}

TEST_CASE("a failed read of parameters ends all ranks, naming file, bytes, unit and reason") {
  DiskOfParametersEnds const ends;
  Folder const folder;
  for (auto const& disk : parameters_on_disks) {
    for (auto const* const zero : {"", R"(, "overlap_comm": false)"}) {
      auto const outcome =
          train_bf16(with_parameters(folder.path(), disk, {.zero = zero, .more = bf16_file}), [&](int rank, int step) {
            if (rank == 0 && step == 2) {
              FailPoints::odd_disk({.folder = folder.path(), .read_error = EIO});
            }
          });
      FailPoints::odd_disk({});
      INFO(messages_of(outcome));
      REQUIRE(outcome[0]);
      REQUIRE(outcome[1]);
      CHECK_THAT(messages_of(outcome), Contains("offloaded to a file in " + folder.path().string() +
                                                ": cannot be read: Input/output error; bytes ") &&
                                           Contains(": parameters of unit \"block"));
      CHECK(folder.contents().empty());
    }
  }
}

TEST_CASE("any failed write of parameters ends all ranks") {
  DiskOfParametersEnds const ends;
  Folder const folder;
  for (int const number : {1, 3, 9}) {
    for (int const error : {EIO, ENOSPC}) {
      FailPoints::arm(folder.path(), number + 4, error);  // the first calls create the files: open and fallocate of two
      auto const outcome =
          train_bf16(with_parameters(folder.path(), parameters_on_disks[1], {.more = bf16_file}), [](int, int) {});
      INFO(fmt::format("call {}: {}\n{}", number, FailPoints::failed(), messages_of(outcome)));
      FailPoints::disarm();
      REQUIRE(outcome[0]);
      REQUIRE(outcome[1]);
      CHECK((holds<SystemError>(outcome[0]) || holds<SystemError>(outcome[1])));
      CHECK_THAT(messages_of(outcome), Contains(error == EIO ? "Input/output error" : "No space left on device"));
      CHECK(folder.contents().empty());
    }
  }
}

TEST_CASE("a full or silent disk of parameters is reported on all ranks") {
  DiskOfParametersEnds const ends;
  Folder const folder;
  auto const config = with_parameters(folder.path(), parameters_on_disks[1], {.more = bf16_file});
  SECTION("full") {
    FailPoints::arm(folder.path(), 2, ENOSPC);
    auto const outcome = train_bf16(config, [](int, int) {});
    REQUIRE(outcome[0]);
    REQUIRE(outcome[1]);
    CHECK_THAT(messages_of(outcome), Contains("cannot be written: No space left on device"));
  }
  SECTION("missing, and cannot be created") {
    auto const outcome =
        train_bf16(with_parameters("/dev/null/gone", parameters_on_disks[1], {.more = bf16_file}), [](int, int) {});
    REQUIRE(outcome[0]);
    CHECK_THAT(
        messages_of(outcome),
        Contains("zero_optimization.offload_param.nvme_path: cannot create a file in /dev/null/gone: Not a directory"));
  }
  SECTION("silent") {
    auto const* const zero = GENERATE("", R"(, "overlap_comm": false)");
    auto const outcome = train_bf16(
        with_parameters(folder.path(), parameters_on_disks[1], {.zero = zero, .zeroth = "", .more = bf16_file})
            .with(R"({"zeroth": {"timeout_ms": 2000}})"),
        [&](int rank, int step) {
          if (rank == 0 && step == 2) {
            FailPoints::odd_disk({.folder = folder.path(), .holds = true});
          }
        });
    INFO(messages_of(outcome));
    REQUIRE(outcome[0]);
    REQUIRE(outcome[1]);
    CHECK_THAT(messages_of(outcome), Contains("the disk does not answer: ") &&
                                         Contains("1500 ms, three quarters of zeroth.timeout_ms; bytes ") &&
                                         Contains("parameters of unit"));
  }
  CHECK(folder.contents().empty());
}

TEST_CASE("an error during a read of parameters ends an engine that measures times") {
  DiskOfParametersEnds const ends;
  Folder const folder;
  Log const log;
  auto const* const table = GENERATE(R"(, "wall_clock_breakdown": true)", R"(, "comms_logger": {"enabled": true})",
                                     R"(, "flops_profiler": {"enabled": true})");
  auto const config = with_parameters(folder.path(), parameters_on_disks[1],
                                      {.zero = R"(, "overlap_comm": true)", .more = std::string{bf16_file} + table});
  INFO(table);
  for (unsigned end = 1; end <= 6; ++end) {
    FailPoints::odd_disk({.folder = folder.path(), .seed = end});
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small{wide};
      Engine<bf16> engine{job, small.model, config};
      auto micro = *engine.micro_steps().begin();
      auto const p = micro.forward(small.units[0]);
      throw std::runtime_error{"the program ends"};
    });
    CHECK_THAT(messages_of(outcome), Contains("the program ends"));
  }
}

TEST_CASE("partial reads and writes of parameters change nothing") {
  DiskOfParametersEnds const ends;
  Folder const folder;
  auto const config = with_parameters(folder.path(), parameters_on_disks[0], {.more = bf16_file});
  auto const whole = weights_after<bf16>(small_config(3, {.more = bf16_file}), wide);
  for (std::size_t const most : {std::size_t{0}, std::size_t{4096}, std::size_t{512}, std::size_t{100}}) {
    FailPoints::odd_disk({.folder = folder.path(), .most = most});
    CHECK((weights_after<bf16>(config, wide) == whole));
  }
}

}  // namespace zeroth::testing
