// SPDX-License-Identifier: Apache-2.0
/// Saves in which one system call fails, each call in turn: all ranks get the error, training continues, existing
/// checkpoints stay, and the next save succeeds. Also saves in which the process is killed, at each call in turn.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/commit.hpp"
#include "runs.hpp"
#include "small_run.hpp"
#include "support/fail_points.hpp"
#include "support/log.hpp"
#include "zeroth/checkpoint/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

/// Trains a step and saves with call `number` failing; then trains another step and saves without failures.
struct Attempt {
  std::vector<std::vector<std::string>> errors;
  std::string failed;  ///< The call that failed.
  /// Afterwards the checkpoint exists, but `latest` names another one.
  bool half_done = false;
};
Attempt attempt(int world, fs::path const& folder, int number, int error, bool from_there_on = false) {
  Attempt result;
  auto const config = small_config(2);
  result.errors = run_small(world, config, [&](auto& engine, auto& small, auto& notes) {
    bool const first = this_rank().rank == 0;
    engine.restore_latest(folder);
    train(engine, small, 1);
    if (first) {
      from_there_on ? FailPoints::arm_from(folder, number, error) : FailPoints::arm(folder, number, error);
    }
    train(engine, small, 1);  // after it all ranks know that the failure is armed
    notes.push_back(error_of([&] { engine.save(folder).wait(); }));
    if (first) {
      result.failed = FailPoints::failed();
      FailPoints::disarm();
      auto const name = checkpoint::checkpoint_name(2);
      result.half_done = fs::exists(folder / name) && checkpoint::latest_in(folder) != name;
    }
    train(engine, small, 1);
    notes.push_back(error_of([&] { engine.save(folder).wait(); }));
  });
  return result;
}

std::string text_of(fs::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
}

std::map<std::string, std::string> files_in(fs::path const& folder) {
  std::map<std::string, std::string> files;
  for (auto const& entry : fs::recursive_directory_iterator{folder}) {
    if (entry.is_regular_file()) {
      files[fs::relative(entry.path(), folder).string()] = text_of(entry.path());
    }
  }
  return files;
}

}  // namespace

TEST_CASE("a full or broken disk makes a save fail at any call, and does nothing else") {
  auto const error = GENERATE(ENOSPC, EIO);
  auto const world = GENERATE(1, 2);
  Folder const folder;
  run_small(world, small_config(2), [&](auto& engine, auto&, auto&) { engine.save(folder.path()).wait(); });
  auto const before = files_in(folder / "step_00000000");
  int number = 1;
  std::set<std::string> seen;
  for (bool more = true; more; ++number) {
    Folder const copy;
    fs::copy(folder.path(), copy.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    auto const result = attempt(world, copy.path(), number, error);
    INFO(fmt::format("{} ranks, call {} ({}) fails with {}", world, number, result.failed, error));
    more = !result.failed.empty();
    seen.insert(result.failed.substr(0, result.failed.find(' ')));
    for (auto const& each : result.errors) {
      REQUIRE(each.size() == 2);
      // Calls that only clean up, or write the lock's text for people, may fail: the checkpoint is complete.
      auto const& failed = result.failed;
      bool const may_fail = failed.empty() || failed.starts_with("unlink") || failed.starts_with("rmdir") ||
                            (failed.ends_with("/.lock") && !failed.starts_with("open"));
      if (!may_fail) {
        CHECK_THAT(each[0], Contains("SystemError save() of step 2 into") && Contains("failed and changed nothing") &&
                                Contains(std::generic_category().message(error)));
      }
      CHECK(each[1].empty());
    }
    CHECK_FALSE(result.half_done);
    CHECK(files_in(copy / "step_00000000") == before);
    CHECK(checkpoint::newest_first(copy.path()).front() == copy / "step_00000003");
    for (auto const& entry : fs::directory_iterator{copy.path()}) {
      CHECK_THAT(entry.path().filename().string(), !Catch::EndsWith(".partial"));
    }
  }
  CHECK(number > 15);
  if (world > 1) {
    return;  // its ranks make calls in any order, so a number is not the same call every time
  }
  for (auto const* const call : {"open", "pwrite", "fsync", "ftruncate", "fallocate", "rename", "mkdir", "write"}) {
    INFO(call);
    CHECK(seen.contains(call));
  }
}

TEST_CASE("a disk that stays full fails every save until there is room again") {
  Folder const folder;
  for (int const number : {1, 3, 8, 15}) {
    auto const result = attempt(2, folder.path(), number, ENOSPC, true);
    for (auto const& each : result.errors) {
      REQUIRE(each.size() == 2);
      CHECK_THAT(each[0], Contains("No space left on device"));
      CHECK(each[1].empty());
    }
  }
}

TEST_CASE(
    "a process that is killed at any call leaves the previous checkpoint or the new one, and the next run works") {
  auto const world = GENERATE(1, 2);  // the order of calls varies with two ranks, not with one
  Folder const folder;
  run_small(world, small_config(2), [&](auto& engine, auto& small, auto&) {
    train(engine, small, 1);
    engine.save(folder.path()).wait();
  });
  std::set<std::string> found;
  // Which rank makes the folder first varies, and with it the number of calls, so try some numbers past the last call.
  int survived = 0;
  int number = 1;
  for (; survived < 4; ++number) {
    INFO(fmt::format("{} ranks, killed at call {}", world, number));
    Folder const copy;
    fs::copy(folder.path(), copy.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    pid_t const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // the child has one thread, and starts its own
      auto const result = attempt(world, copy.path(), number, FailPoints::kill);
      ::_exit(result.errors.front().front().empty() ? 0 : 3);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    bool const killed = WIFSIGNALED(status);
    survived += killed ? 0 : 1;
    CHECK((killed ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0));
    auto const restored_steps = run_small(2, small_config(3), [&](auto& engine, auto& small, auto& notes) {
      auto const restored = engine.restore_latest(copy.path());
      notes.push_back(fmt::format("{}", restored ? restored->step : -1));
      train(engine, small, 4);
      engine.save(copy.path()).wait();
    });
    found.insert(restored_steps.front().front());
    auto const all = checkpoint::newest_first(copy.path());
    REQUIRE_FALSE(all.empty());
    for (auto const& entry : fs::directory_iterator{copy.path()}) {
      CHECK_THAT(entry.path().filename().string(), !Catch::EndsWith(".partial"));
    }
    for (auto const& each : all) {
      checkpoint::Reader reader{each};
      for (int place = 0; place < reader.record().contents.places; ++place) {
        CHECK(reader.damage(place, true).empty());
      }
    }
  }
  CHECK(number > 15);
  CHECK(found.contains("1"));  // the previous one
  if (world == 1) {
    CHECK(found.contains("3"));  // the new one
  }
}

TEST_CASE("a slow disk delays updates, which report it, and nothing else") {
  auto const* const buffer_bytes = GENERATE("0", "8388608");
  INFO(buffer_bytes);
  Folder const folder;
  std::vector<std::vector<double>> waited(2);
  FailPoints::slow_down(std::chrono::milliseconds{300});  // longer than a step on a busy machine
  auto const outcome = run_job(2, [&](Job& job) {
    Model model{1};
    auto const unit = model.unit("large");
    auto const weight = model.param(unit, "w", {4'000'000}, Constant{1});  // a rank's part is three times its buffer
    auto const section = fmt::format(R"(, "checkpoint": {{"buffer_bytes": {}}})", buffer_bytes);
    Engine<float> engine{job, model, small_config(3, {.accumulation = 1, .zeroth = section})};
    static_cast<void>(engine.save(folder.path()));
    auto& mine = waited[static_cast<std::size_t>(job.rank())];
    for (int step = 0; step < 4; ++step) {
      for (auto micro : engine.micro_steps()) {
        { auto const p = micro.forward(unit); }
        float const seed = micro.report_loss(1);
        auto const p = micro.backward(unit);
        auto const grad = p.grad(weight);
        std::fill_n(grad.data(), 4'000'000, seed);
      }
      if (auto const report = engine.step()) {
        mine.push_back(report->save_ms);
      }
    }
    mine.push_back(engine.finish()->save_ms);
    mine.push_back(engine.peak().total() == engine.planned().total() ? 0 : 1);  // pieces wait for buffers instead of
                                                                                // taking more memory
  });
  FailPoints::slow_down(std::chrono::milliseconds{0});
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : waited) {
    REQUIRE(each.size() == 5);
    CHECK(each[4] == 0);
    CHECK(each[0] > 0);
    CHECK(each[1] == 0);
    CHECK(each[2] == 0);
  }
  // Data that waited for the disk matches its hashes, though every update changes all of it.
  checkpoint::Reader reader{folder / "step_00000000"};
  CHECK(reader.damage(0, true).empty());
  CHECK(reader.damage(1, true).empty());
}

TEST_CASE("a read error is reported with the data that it hits, and no older checkpoint is used instead") {
  Folder const folder;
  run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
    for (int step = 0; step < 2; ++step) {
      train(engine, small, 1);
      engine.save(folder.path()).wait();
    }
  });
  FailPoints::break_reads(folder / "step_00000002/place_00001.safetensors");
  checkpoint::Reader reader{folder / "step_00000002"};
  auto const damage = reader.damage(1, true);
  auto const errors = run_small(3, small_config(3), [&](auto& engine, auto& small, auto& notes) {
    notes.push_back(error_of([&] { engine.restore(folder.path()); }));
    notes.push_back(error_of([&] { engine.restore_latest(folder.path()); }));
    train(engine, small, 1);
  });
  FailPoints::break_reads({});
  REQUIRE(damage.size() == 1);
  CHECK_THAT(damage[0].why, Contains("Input/output error"));
  for (auto const& each : errors) {
    CHECK_THAT(each.at(0), Contains("SystemError restore() failed and changed nothing") &&
                               Contains("step_00000002: place_00001.safetensors: cannot be read: Input/output error"));
    CHECK(each.at(1) == each.at(0));
  }
}

TEST_CASE("a restore reads the disk once in total, at every stage and number of ranks") {
  Folder const folder;
  constexpr std::int64_t count = 6'000'000;
  auto const run = [&](int world, int stage, auto const& each) {
    auto const outcome = run_job(world, [&](Job& job) {
      Model model{1};
      static_cast<void>(model.param(model.unit("large"), "w", {count}, Constant{1}));
      Engine<float> engine{job, model, small_config(stage)};
      each(engine);
    });
    REQUIRE(messages_of(outcome) == "");
  };
  run(4, 2, [&](auto& engine) { engine.save(folder.path()).wait(); });
  constexpr std::int64_t data = 3 * 4 * count;
  for (int const world : {2, 4, 5}) {
    for (int stage = 0; stage <= 3; ++stage) {
      INFO(fmt::format("{} ranks, stage {}", world, stage));
      auto const before = FailPoints::bytes_read();
      run(world, stage, [&](auto& engine) { engine.restore(folder.path()); });
      auto const read = FailPoints::bytes_read() - before;
      CHECK(read >= data);
      // For each state a rank may read one more MiB at both ends of its part, plus headers.
      CHECK(read <= data + world * 3 * (std::int64_t{2} << 20U) + (std::int64_t{1} << 20U));
      CHECK(read < 2 * data);
    }
  }
}

TEST_CASE("saves do not read records again to decide which checkpoints to keep") {
  Folder const folder;
  SaveOptions options;
  options.keep = 3;
  std::vector<std::int64_t> read;
  run_small(1, small_config(2), [&](auto& engine, auto& small, auto&) {
    for (int step = 0; step < 5; ++step) {
      train(engine, small, 1);
      auto const before = FailPoints::bytes_read();
      engine.save(folder.path(), options).wait();
      read.push_back(FailPoints::bytes_read() - before);
    }
  });
  CHECK(std::ranges::max(read) < 100);  // the content of latest; a record has thousands of bytes
  CHECK(folder.contents() == ".lock latest step_00000003 step_00000004 step_00000005 ");
}

TEST_CASE("folders that claim() creates are synced to the disk, each within its parent") {
  Folder const root;
  std::set<std::string> failed;
  for (int call = 1; call <= 6; ++call) {
    fs::remove_all(root / "new");
    FailPoints::arm(root.path(), call, EIO);
    static_cast<void>(thrown<SystemError>([&] { checkpoint::FolderLock const lock{root / "new" / "newer", "test"}; }));
    failed.insert(FailPoints::failed());
    FailPoints::disarm();
  }
  CHECK(failed.contains("fsync " + root.path().string()));
  CHECK(failed.contains("fsync " + (root / "new").string()));
}

TEST_CASE("an update that waits long for a save says so before other ranks give up") {
  Log const log;
  Folder const folder;
  auto const config = small_config(2).with(R"({"zeroth": {"timeout_ms": 60, "checkpoint": {"buffer_bytes": 0}}})");
  run_small(1, config, [&](auto& engine, auto& small, auto&) {
    FailPoints::odd_disk({.folder = folder.path(), .holds = true});
    std::jthread const watch{[&] {
      static_cast<void>(log.has("an update has waited"));
      FailPoints::odd_disk({});
    }};
    static_cast<void>(engine.save(folder.path()));
    train(engine, small, 1);
    engine.finish();
  });
  CHECK(log.count("an update has waited 30 ms for the save of step 0 into " + folder.path().string()) > 0);
}

TEST_CASE("losing a rank during a save leaves the earlier checkpoints") {
  Folder const folder;
  run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
    train(engine, small, 1);
    engine.save(folder.path()).wait();
  });
  for (int const lost : {0, 1}) {
    INFO(fmt::format("rank {} is lost", lost));
    FailPoints::slow_down(std::chrono::milliseconds{30});
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      SmallEngine engine{job, small.model, small_config(2)};
      engine.restore_latest(folder.path());
      train(engine, small, 1);
      auto saving = engine.save(folder.path());
      if (job.rank() == lost) {
        throw std::runtime_error{"lost"};
      }
      saving.wait();
    });
    FailPoints::slow_down(std::chrono::milliseconds{0});
    CHECK(message_of(outcome[static_cast<std::size_t>(lost)]) == "lost");
    CHECK_THAT(message_of(outcome[static_cast<std::size_t>(1 - lost)]), Contains("lost"));
    CHECK(checkpoint::newest_first(folder.path()) == std::vector{folder / "step_00000001"});
  }
  run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
    engine.restore_latest(folder.path());
    train(engine, small, 1);
    engine.save(folder.path()).wait();
  });
  CHECK(folder.contents() == ".lock latest step_00000001 step_00000002 ");
}

/// The number of files in a folder and its subfolders, which may be changing.
std::ptrdiff_t files_below(fs::path const& folder) {
  std::error_code error;
  std::ptrdiff_t files = 0;
  for (fs::recursive_directory_iterator at{folder, error}, end; !error && at != end; at.increment(error)) {
    files += at->is_regular_file(error) ? 1 : 0;
  }
  return files;
}

TEST_CASE("read-only and missing folders are errors") {
  Folder const folder;
  std::ofstream{folder / "file"} << "no folder";
  auto const errors = run_small(2, small_config(2), [&](auto& engine, auto& small, auto& notes) {
    for (auto const* const where : {"/proc/zeroth", "/dev/null/zeroth"}) {
      notes.push_back(error_of([&] { engine.save(where).wait(); }));
    }
    notes.push_back(error_of([&] { engine.save(folder / "file").wait(); }));
    train(engine, small, 1);
    // The folder is removed while files are written to it, slowly.
    notes.push_back(error_of([&] {
      FailPoints::slow_down(std::chrono::milliseconds{300});
      auto saving = engine.save(folder / "gone");
      if (this_rank().rank == 0) {
        for (int tries = 0; tries < 5000 && files_below(folder / "gone") < 3; ++tries) {  // the lock, and the files of
                                                                                          // both ranks
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
        std::error_code ignored;
        fs::remove_all(folder / "gone", ignored);
      }
      saving.wait();
    }));
    FailPoints::slow_down(std::chrono::milliseconds{0});
    train(engine, small, 1);
    notes.push_back(error_of([&] { engine.save(folder / "there").wait(); }));
  });
  for (auto const& each : errors) {
    REQUIRE(each.size() == 5);
    CHECK_THAT(each[0], Contains("SystemError") && Contains("/proc/zeroth"));
    CHECK_THAT(each[1], Contains("SystemError") && Contains("/dev/null/zeroth"));
    CHECK_THAT(each[2], Contains("SystemError"));
    CHECK_THAT(each[3], Contains("SystemError"));
    CHECK(each[4].empty());
  }
}

TEST_CASE("a failed save is thrown once, by the next call, and finish() still returns its report") {
  Folder const folder;
  auto const errors = run_small(2, small_config(2), [&](auto& engine, auto& small, auto& notes) {
    all_micro_steps(engine, small);
    engine.step();
    auto saving = engine.save("/dev/null/zeroth");
    for (int step = 0; step < 20; ++step) {  // all ranks see the failure in these steps
      all_micro_steps(engine, small);
      engine.step();
    }
    notes.push_back(saving.done() ? "" : "not done");
    notes.push_back(error_of([&] { engine.finish(); }));
    auto const report = engine.finish();
    notes.push_back(report && report->step == 21 ? "" : "no report");
    notes.push_back(error_of([&] { engine.save(folder.path()).wait(); }));
    notes.push_back(error_of([&] { saving.wait(); }));
    static_cast<void>(engine.save("/dev/null/zeroth"));
    notes.push_back(error_of([&] { engine.save(folder / "next"); }));
    engine.finish();
    notes.push_back(fs::exists(folder / "next/step_00000021/checkpoint.json") ? "" : "the next one has not begun");
    notes.push_back(error_of([&] { engine.save(folder.path()).wait(); }));
  });
  for (auto const& each : errors) {
    REQUIRE(each.size() == 8);
    CHECK(each[0].empty());
    CHECK_THAT(each[1], Contains("SystemError save() of step 1 into /dev/null/zeroth failed and changed nothing"));
    CHECK(each[2].empty());
    CHECK(each[3].empty());
    CHECK_THAT(each[4], Contains("SystemError save() of step 1"));  // the error of this save, however often it is asked
    CHECK_THAT(each[5], Contains("SystemError save() of step 21"));
    CHECK(each[6].empty());
    CHECK(each[7].empty());
  }
}

TEST_CASE("a program may take a failed save as a value: one report says so, and nothing is thrown") {
  Folder const folder;
  bool const asks = GENERATE(true, false);
  auto const results = run_small(2, small_config(2), [&](auto& engine, auto& small, auto& notes) {
    auto const steps_until_done = [&](Saving const& saving) {
      int failed = 0;
      while (!saving.done()) {
        all_micro_steps(engine, small);
        auto const report = engine.step();
        failed += report && report->save_failed ? 1 : 0;
      }
      return std::to_string(failed);
    };
    train(engine, small, 1);
    auto saving = engine.save("/dev/null/zeroth");
    notes.push_back(saving.failure().value_or("not yet"));
    notes.push_back(steps_until_done(saving));
    if (asks) {
      notes.push_back(saving.failure().value_or("none"));
      notes.push_back(saving.failure().value_or("none"));
    }
    std::optional<Saving> next;
    notes.push_back(error_of([&] { next = engine.save(folder.path()); }));
    notes.push_back(next ? steps_until_done(*next) : "0");
    notes.push_back(next ? next->failure().value_or("none") : "");
    notes.push_back(error_of([&] { engine.finish(); }));
  });
  for (auto const& each : results) {
    REQUIRE(each.size() == (asks ? 8 : 6));
    CHECK(each[0] == "not yet");
    CHECK(each[1] == "1");
    auto rest = each.begin() + 2;
    if (asks) {
      CHECK_THAT(*rest, Contains("save() of step 1 into /dev/null/zeroth failed and changed nothing"));
      CHECK(*rest == *(rest + 1));
      rest += 2;
    }
    CHECK(rest[0].starts_with(asks ? "" : "SystemError save() of step 1"));
    CHECK(rest[0].empty() == asks);
    CHECK(rest[1] == "0");
    CHECK(rest[2] == (asks ? "none" : ""));
    CHECK(rest[3].empty());
  }
}

TEST_CASE("ranks of which only some take a failed save as a value are told so") {
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small;
    SmallEngine engine{job, small.model, small_config(2)};
    auto const step = [&] {
      all_micro_steps(engine, small);
      engine.step();
    };
    step();
    auto saving = engine.save("/dev/null/zeroth");
    while (!saving.done()) {  // ends in the same step on both ranks
      step();
    }
    if (job.rank() == 0) {
      static_cast<void>(saving.failure());
    }
    step();
    step();
    engine.finish();
  });
  CHECK_THAT(messages_of(outcome), Contains("Saving::failure() of a save that failed"));
}

}  // namespace zeroth::testing
