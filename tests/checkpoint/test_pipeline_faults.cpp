// SPDX-License-Identifier: Apache-2.0
/// Pipelines with a save that fails on a rank of one stage, or in which that rank is killed: all ranks are told, and
/// the previous checkpoint is intact.
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "killed_saves.hpp"
#include "pipeline_runs.hpp"
#include "small_run.hpp"
#include "support/fail_points.hpp"
#include "support/folder.hpp"
#include "zeroth/checkpoint/file_reader.hpp"
#include "zeroth/checkpoint/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

constexpr Shape of_four{.stages = 2, .data = 2, .zero = 3};

void train_steps(Engine<float>& engine, Chain const& chain, int steps) {
  for (int step = 0; step < steps; ++step) {
    run_actions(engine, chain, {}, 0, false);
    engine.step();
  }
}

void with_engine(Job& job, Config const& config,
                 std::function<void(AnyEngine&, std::function<void(int steps)> const&)> const& work) {
  Chain const chain;
  Mesh mesh{job, config};
  Engine<float> engine{mesh, chain.model, config};
  work(engine, [&](int steps) { train_steps(engine, chain, steps); });
}

void check_whole(fs::path const& checkpoint) {
  checkpoint::Reader reader{checkpoint};
  CHECK(reader.record().contents.stages() == 2);
  CHECK(reader.record().contents.places == 4);
  for (int place = 0; place < 4; ++place) {
    CHECK(reader.damage(place, true).empty());
  }
}

}  // namespace

TEST_CASE(
    "a rank of a pipeline stage that is killed during a save leaves the previous checkpoint, and the next run "
    "resumes") {
  auto const resume = [](fs::path const& saved) {
    Shape const then{.stages = 4, .data = 1, .zero = 1};
    ChainRun run;
    run.options.steps = 2;
    run.begin = [&](AnyEngine& engine) { return static_cast<int>(engine.restore_latest(saved)->step); };
    run.after_step = [&](AnyEngine& engine, int) { engine.save(saved).wait(); };
    return train_chains(config_of(fp32_types, then), then, run).reports.front().step;
  };
  CHECK(kill_in_saves({{2, 1}, {2, 2}, {3, 3}, {2, 4}, {1, 3}, {0, 5}}, config_of(fp32_types, of_four), with_engine,
                      check_whole, resume) >= 4);
}

TEST_CASE("a disk error on a rank of one stage is reported on all ranks, and changes nothing") {
  auto const error = GENERATE(ENOSPC, EIO);
  int number = 1;
  int failures = 0;
  for (bool more = true; more; number += 2) {
    bool const meets = number % 4 == 1;  // waits for the save, which agrees by a collective; otherwise ranks agree
                                         // through the sums of steps
    Folder const folder;
    std::vector<std::vector<std::string>> errors(4);
    std::string failed;
    auto const config = config_of(fp32_types, of_four);
    CHECK(messages_of(run_job(4, [&](Job& job) {
            Chain const chain;
            Mesh mesh{job, config};
            Engine<float> engine{mesh, chain.model, config};
            auto& mine = errors[static_cast<std::size_t>(job.rank())];
            train_steps(engine, chain, 1);
            engine.save(folder.path()).wait();
            if (job.rank() == 0) {
              FailPoints::arm(folder.path(), number, error);
            }
            train_steps(engine, chain, 1);  // after it all ranks know that the failure is armed
            mine.push_back(error_of([&] {
              auto saving = engine.save(folder.path());
              if (meets) {
                return saving.wait();
              }
              train_steps(engine, chain, 3);  // their sums report the failure
              engine.finish();
            }));
            if (job.rank() == 0) {
              failed = FailPoints::failed();
              FailPoints::disarm();
            }
            train_steps(engine, chain, 1);
            mine.push_back(error_of([&] {
              static_cast<void>(engine.save(folder.path()));
              train_steps(engine, chain, 3);  // their sums tell when all files of all stages are written
              engine.finish();
            }));
          })) == "");
    INFO(fmt::format("call {} ({}) fails with {}", number, failed, error));
    more = !failed.empty();
    bool const may_fail =
        failed.empty() || failed.starts_with("unlink") || failed.starts_with("rmdir") || failed.ends_with("/.lock");
    for (auto const& each : errors) {
      REQUIRE(each.size() == 2);
      CHECK(each[0] == errors.front()[0]);
      if (!may_fail) {
        CHECK_THAT(each[0], Contains("SystemError save() of step 2 into") && Contains("failed and changed nothing") &&
                                Contains(std::generic_category().message(error)));
      }
      CHECK(each[1].empty());
    }
    failures += may_fail ? 0 : 1;
    check_whole(folder / "step_00000001");
    check_whole(folder / checkpoint::checkpoint_name(meets ? 3 : 6));
    for (auto const& entry : fs::directory_iterator{folder.path()}) {
      CHECK_THAT(entry.path().filename().string(), !Catch::EndsWith(".partial"));
    }
  }
  CHECK(failures > 8);
}

}  // namespace zeroth::testing
