// SPDX-License-Identifier: Apache-2.0
/// Tensor ranks that are killed while they save, and disks that fail for one of them: all are told, and the previous
/// checkpoint is intact. Also the amount of data that a restore reads.
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "killed_saves.hpp"
#include "small_run.hpp"
#include "support/fail_points.hpp"
#include "support/folder.hpp"
#include "tensor_runs.hpp"
#include "zeroth/checkpoint/file_reader.hpp"
#include "zeroth/checkpoint/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

constexpr Grid of_four{.pipeline = 1, .data = 2, .tensor = 2, .zero = 3};

template <class Run>
void train_steps(Engine<float>& engine, Run& run, int steps) {
  for (int step = 0; step < steps; ++step) {
    run.step(1);
    engine.step();
  }
}

void with_engine(Job& job, Config const& config,
                 std::function<void(AnyEngine&, std::function<void(int steps)> const&)> const& work) {
  Mesh mesh{job, config};
  Divided const divided{mesh.tensor_part(), true};
  Engine<float> engine{mesh, divided.model, config};
  DividedRun<float, float> run{mesh, divided, engine};
  work(engine, [&](int steps) { train_steps(engine, run, steps); });
}

void check_whole(fs::path const& checkpoint) {
  checkpoint::Reader reader{checkpoint};
  CHECK(reader.record().contents.tensor_ranks == 2);
  CHECK(reader.record().contents.places == 4);
  for (int place = 0; place < 4; ++place) {
    CHECK(reader.damage(place, true).empty());
  }
}

}  // namespace

TEST_CASE("a tensor rank that is killed during a save leaves the previous checkpoint, and the next run resumes") {
  auto const resume = [](fs::path const& saved) {
    Grid const then{2, 1, 1, 1};
    DividedOptions options;
    options.sequence = true;
    options.steps = 2;
    options.begin = [&](AnyEngine& engine) { return static_cast<int>(engine.restore_latest(saved)->step); };
    options.after_step = [&](AnyEngine& engine, int) { engine.save(saved).wait(); };
    return train_grid(config_of(fp32_types, then), then, options).reports.front().step;
  };
  CHECK(kill_in_saves({{1, 1}, {1, 2}, {3, 3}, {1, 4}, {0, 5}}, config_of(fp32_types, of_four), with_engine,
                      check_whole, resume) >= 3);
}

TEST_CASE("a disk error on one tensor rank is reported on all ranks, and changes nothing") {
  auto const config = config_of(fp32_types, of_four);
  int failures = 0;
  int number = 1;
  for (bool more = true; more; number += 3) {
    Folder const folder;
    std::vector<std::vector<std::string>> errors(4);
    std::string failed;
    CHECK(messages_of(run_job(4, [&](Job& job) {
            Mesh mesh{job, config};
            Divided const divided{mesh.tensor_part(), true};
            Engine<float> engine{mesh, divided.model, config};
            DividedRun<float, float> run{mesh, divided, engine};
            auto& mine = errors[static_cast<std::size_t>(job.rank())];
            train_steps(engine, run, 1);
            engine.save(folder.path()).wait();
            if (job.rank() == 0) {
              FailPoints::arm(folder.path(), number, ENOSPC);
            }
            train_steps(engine, run, 1);  // after it all ranks know that the failure is armed
            mine.push_back(error_of([&] { engine.save(folder.path()).wait(); }));
            if (job.rank() == 0) {
              failed = FailPoints::failed();
              FailPoints::disarm();
            }
            train_steps(engine, run, 1);
            mine.push_back(error_of([&] { engine.save(folder.path()).wait(); }));
            engine.finish();
          })) == "");
    INFO(fmt::format("call {} ({}) fails", number, failed));
    more = !failed.empty();
    bool const may_fail =
        failed.empty() || failed.starts_with("unlink") || failed.starts_with("rmdir") || failed.ends_with("/.lock");
    for (auto const& each : errors) {
      REQUIRE(each.size() == 2);
      CHECK(each[0] == errors.front()[0]);
      if (!may_fail) {
        CHECK_THAT(each[0], Contains("SystemError save() of step 2 into") && Contains("failed and changed nothing") &&
                                Contains(std::generic_category().message(ENOSPC)));
      }
      CHECK(each[1].empty());
    }
    failures += may_fail ? 0 : 1;
    check_whole(folder / "step_00000001");
    check_whole(folder / "step_00000003");
  }
  CHECK(failures > 5);
}

TEST_CASE("a rank reads the pieces that it needs from files of other tensor ranks") {
  constexpr std::int64_t rows = 6000;
  constexpr std::int64_t columns = 2400;
  constexpr std::int64_t data = 3 * 4 * rows * columns;  // bytes
  auto const run = [&](int ranks, int tensor, Cut const& cut, auto const& each) {
    auto const config = config_of(fp32_types, {.data = ranks / tensor, .tensor = tensor, .zero = 2});
    auto const outcome = run_job(ranks, [&](Job& job) {
      Mesh mesh{job, config};
      Model model{1, mesh.tensor_part()};
      static_cast<void>(model.param(model.unit("large"), "w", {rows, columns}, Constant{1}, {.cut = cut}));
      Engine<float> engine{mesh, model, config};
      each(engine);
    });
    REQUIRE(messages_of(outcome) == "");
  };
  Cut const by_rows{.dim = 0};
  Cut const by_columns{.dim = 1};
  Cut const by_sections{.dim = 0, .sections = {rows / 2, rows / 2}};  // a rank needs two places of a file
  for (auto const& [saved_as, restored_as, tensor] : {std::tuple{by_rows, by_rows, 2},
                                                      {by_rows, by_columns, 2},
                                                      {by_rows, by_rows, 4},
                                                      {by_sections, by_sections, 4},
                                                      {by_columns, by_columns, 1}}) {
    Folder const folder;
    run(4, 2, saved_as, [&](auto& engine) { engine.save(folder.path()).wait(); });
    auto const before = FailPoints::bytes_read();
    run(4, tensor, restored_as, [&](auto& engine) { engine.restore(folder.path()); });
    auto const read = FailPoints::bytes_read() - before;
    INFO(fmt::format("{} of {} bytes, {} tensor ranks", read, data, tensor));
    CHECK(read >= data);
    // By columns both tensor ranks need a part of every MiB of each row, and each reads the whole MiB.
    auto const times = restored_as.dim == 1 && tensor == 2 ? 2 : 1;
    CHECK(read <= times * data + 4 * 2 * 3 * (std::int64_t{2} << 20U) + (std::int64_t{1} << 20U));
  }
}

}  // namespace zeroth::testing
