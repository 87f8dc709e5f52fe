// SPDX-License-Identifier: Apache-2.0
/// The calls for saving and restoring: results, errors, and the files that remain.
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runs.hpp"
#include "saved.hpp"
#include "small_run.hpp"
#include "support/log.hpp"
#include "support/sanitized.hpp"
#include "zeroth/checkpoint/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

std::vector<std::byte> bytes_of_text(std::string_view text) {
  auto const bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

std::string latest_in(fs::path const& folder) {
  std::ifstream file{folder / "latest"};
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

TEST_CASE("a save completes a few steps later without a call that waits for it") {
  for (int stage = 0; stage <= 3; ++stage) {
    Folder const folder;
    std::atomic<int> steps_until_done = 0;
    auto const errors = run_small(3, small_config(stage), [&](auto& engine, auto& small, auto& notes) {
      auto saving = engine.save(folder.path());
      if (saving.done()) {
        notes.push_back("done at once");
      }
      int steps = 0;
      for (; !saving.done() && steps < 100'000; ++steps) {
        all_micro_steps(engine, small);
        engine.step();
      }
      if (!fs::exists(saving.path() / "checkpoint.json") || saving.path() != folder / "step_00000000") {
        notes.push_back("not at " + saving.path().string());
      }
      saving.wait();
      steps_until_done = steps;
    });
    for (auto const& each : errors) {
      CHECK(each.empty());
    }
    CHECK(steps_until_done >= 3);  // at the earliest it is written by the first step, committed by the second, and
                                   // known in the third
    CHECK(latest_in(folder.path()) == "step_00000000");
    CHECK(folder.contents() == ".lock latest step_00000000 ");
  }
}

TEST_CASE("states that are written in place are the same as states that are copied first") {
  // Some slices are large and not aligned, others are tiny.
  std::int64_t const large = sanitized ? 150'001 : 1'500'001;
  std::vector<std::int64_t> const counts{large / 5, 7, 129, large, 40'000, 1, 65'536};
  auto const saved_with = [&](std::string const& section, bool waits) {
    Folder const folder;
    auto const outcome = run_job(3, [&](Job& job) {
      Model model{1};
      std::vector<std::pair<Unit, Param<1>>> params;
      for (auto const count : counts) {
        auto const unit = model.unit(fmt::format("of {}", count));
        params.emplace_back(unit, model.param(unit, fmt::format("w{}", count), {count}, Normal{1}));
      }
      Engine<float> engine{job, model, small_config(2, {.accumulation = 1, .zeroth = section})};
      auto const step = [&] {
        for (auto micro : engine.micro_steps()) {
          for (auto const& [unit, param] : params) {
            auto const p = micro.forward(unit);
          }
          float const seed = micro.report_loss(1);
          for (auto at = params.rbegin(); at != params.rend(); ++at) {
            auto const p = micro.backward(at->first);
            auto const grad = p.grad(at->second);
            for (std::size_t i = 0; i < static_cast<std::size_t>(p[at->second].count()); ++i) {
              grad.data()[i] = seed * static_cast<float>(i % 17);
            }
          }
        }
        engine.step();
      };
      step();
      step();
      auto saving = engine.save(folder.path());
      for (int beside = 0; !waits && beside < 3; ++beside) {
        step();  // changes the states that are being saved
      }
      saving.wait();
    });
    REQUIRE(messages_of(outcome) == "");
    return states_in(folder / "step_00000002");
  };
  auto const expected = saved_with(R"(, "checkpoint": {"buffer_bytes": 8388608})", true);
  for (std::string const direct : {"true", "false"}) {
    for (std::string const bytes : {"0", "8388608"}) {
      auto const section = fmt::format(R"(, "checkpoint": {{"buffer_bytes": {}, "direct_io": {}}})", bytes, direct);
      INFO(section);
      CHECK(saved_with(section, false) == expected);
    }
  }
}

TEST_CASE("from its first save on a rank holds exactly the planned staging memory") {
  for (std::int64_t const asked : {0, 8 << 20, 9 << 20, 24 << 20}) {
    INFO(asked);
    Folder const folder;
    auto const config = small_config(3, {.zeroth = fmt::format(R"(, "checkpoint": {{"buffer_bytes": {}}})", asked)});
    auto const planned = plan(SmallModel{}.model, config, 2);
    CHECK(planned.staging_bytes == (asked == 0 ? 1 << 20 : asked / (4 << 20) * (4 << 20)));
    CHECK_THAT(explain_plan(planned), Contains(fmt::format("  staging    {:>14} B ", planned.staging_bytes)) &&
                                          Contains(" of the host, from its first save on"));
    run_small(2, config, [&](auto& engine, auto& small, auto&) {
      train(engine, small, 1);
      expect(engine.staging_bytes() == 0, "held before there was a save");
      for (int save = 0; save < 2; ++save) {
        engine.save(folder.path()).wait();
        expect(engine.staging_bytes() == planned.staging_bytes, "other staging is held");
        train(engine, small, 1);
      }
      expect(engine.peak() == planned.bytes, "staging is in the ledger, or saving takes of the device");
    });
  }
}

TEST_CASE("finish() completes a save, and so does the next save") {
  Folder const folder;
  auto const errors = run_small(2, small_config(3), [&](auto& engine, auto& small, auto& notes) {
    train(engine, small, 1);
    auto first = engine.save(folder.path());
    engine.finish();
    if (!first.done() || !fs::exists(first.path())) {
      notes.push_back("finish() left it");
    }
    train(engine, small, 1);
    auto second = engine.save(folder.path());
    all_micro_steps(engine, small);
    engine.step();
    auto third = engine.save(folder.path());
    if (!second.done() || !fs::exists(second.path()) || third.done()) {
      notes.push_back("the next one did not wait");
    }
    third.wait();
    third.wait();
    second.wait();
  });
  for (auto const& each : errors) {
    CHECK(each.empty());
  }
  CHECK(folder.contents() == ".lock latest step_00000001 step_00000002 step_00000003 ");
}

TEST_CASE("Saving::wait() inside a pass is rejected") {
  Folder const folder;
  auto const errors = run_small(2, small_config(2), [&](auto& engine, auto& small, auto& notes) {
    auto saving = engine.save(folder.path());
    for (auto micro : engine.micro_steps()) {
      notes.push_back(error_of([&] { saving.wait(); }));
      micro_step(micro, small);
    }
    engine.step();
    saving.wait();
  });
  for (auto const& each : errors) {
    REQUIRE(each.size() == 2);
    CHECK_THAT(each[0], Contains("Saving::wait() while micro-step 1 of 2 is open: it belongs between passes"));
  }
  CHECK(folder.contents() == ".lock latest step_00000000 ");
}

TEST_CASE("a restore returns where the checkpoint is from, and the program's own state") {
  Folder const folder;
  std::vector<Restored> restored(3);
  auto const state = bytes_of_text("whatever the program wants");
  SampleOrder const order{1000, {.seed = 7}};
  run_small(3, small_config(1), [&](auto& engine, auto& small, auto&) {
    train(engine, small, 4);
    auto const mine = this_rank().rank == 0 ? state : bytes_of_text("rank 0's counts");
    engine.save(folder.path(), {.program_state = mine, .order = order, .keep = {}}).wait();
  });
  run_small(3, small_config(2), [&](auto& engine, auto& small, auto&) {
    auto& mine = restored[static_cast<std::size_t>(this_rank().rank)];
    mine = engine.restore(folder.path(), {.order = order});
    bool is_first = true;
    for (auto micro : engine.micro_steps()) {
      if (is_first && micro.first_sample() != 48 + this_rank().rank * 2) {
        mine.samples = -1;
      }
      is_first = false;
      micro_step(micro, small);
    }
    engine.step();
    auto const report = engine.finish();
    if (!report || report->step != 5) {
      mine.step = -1;
    }
  });
  for (auto const& each : restored) {
    CHECK(each.path == folder / "step_00000004");
    CHECK(each.step == 4);
    CHECK(each.samples == 4 * 2 * 2 * 3);
    CHECK(each.program_state == state);
  }
}

TEST_CASE("save() and restore() reject wrong arguments and calls at the wrong time") {
  Folder const folder;
  std::vector<std::byte> const too_large((1U << 20U) + 1);
  auto const errors = run_small(2, small_config(2), [&](auto& engine, auto& small, auto& notes) {
    auto const note = [&](auto const& call) { notes.push_back(error_of(call)); };
    note([&] { engine.save(""); });
    note([&] { engine.save(folder.path(), {.program_state = too_large, .order = {}, .keep = {}}); });
    note([&] { engine.save(folder.path(), {.program_state = {}, .order = {}, .keep = -1}); });
    note([&] { engine.save(folder.path(), {.program_state = {}, .order = {}, .keep = {}, .keep_every = -1}); });
    int micro_index = 0;
    for (auto micro : engine.micro_steps()) {
      if (micro_index++ == 0) {
        note([&] { engine.save(folder.path()); });
        note([&] { engine.restore(folder.path()); });
      }
      micro_step(micro, small);
    }
    note([&] { engine.save(folder.path()); });
    engine.step();
    note([&] { engine.restore(folder.path()); });
    note([&] { engine.restore_latest(folder.path()); });
    engine.finish();
    note([&] { engine.restore(folder.path()); });
    note([&] { engine.restore(folder / "nowhere"); });
    note([&] {
      if (engine.restore_latest(folder / "nowhere") || engine.restore_latest(folder.path())) {
        throw std::logic_error{"there is none"};
      }
    });
    train(engine, small, 1);
  });
  for (auto const& each : errors) {
    REQUIRE(each.size() == 12);
    CHECK_THAT(each[0], Contains("ContractError save(): the folder's name is empty"));
    CHECK_THAT(each[1], Contains("program_state has 1048577 bytes; allowed are up to 1048576"));
    CHECK_THAT(each[2], Contains("keep is -1; allowed: 0 (all) or more"));
    CHECK_THAT(each[3], Contains("keep_every is -1"));
    CHECK_THAT(each[4], Contains("save() while micro-step 1 of 2 is open: it belongs between passes"));
    CHECK_THAT(each[5], Contains("restore() while micro-step 1 of 2 is open"));
    CHECK_THAT(each[6], Contains("save() after 2 of 2 micro-steps of step 1: it belongs between steps"));
    CHECK_THAT(each[7], Contains("restore(): the report of step 1 is pending; call finish() first"));
    CHECK_THAT(each[8], Contains("restore_latest(): the report of step 1 is pending"));
    CHECK_THAT(each[9], Contains("SystemError restore() failed and changed nothing: rank 0: checkpoint") &&
                            Contains("has neither checkpoint.json nor latest"));
    CHECK_THAT(each[10], Contains("nowhere: there is no such folder"));
    CHECK(each[11].empty());
  }
}

TEST_CASE("the newest checkpoints are kept, and those of every N-th step") {
  auto const kept = [](std::optional<std::int64_t> keep, std::int64_t every, std::string const& keys,
                       std::chrono::seconds keep_for = {}) {
    Folder const folder;
    run_small(2, small_config(3, {.zeroth = keys}), [&](auto& engine, auto& small, auto&) {
      for (int step = 1; step <= 6; ++step) {
        train(engine, small, 1);
        SaveOptions options;
        options.keep = keep;
        options.keep_every = every;
        options.keep_for = keep_for;
        engine.save(folder.path(), options).wait();
      }
    });
    return folder.contents();
  };
  CHECK(kept(2, 0, "") == ".lock latest step_00000005 step_00000006 ");
  CHECK(kept(1, 3, "") == ".lock latest step_00000003 step_00000006 ");
  CHECK(kept(1, 0, "", std::chrono::hours{1}) ==
        ".lock latest step_00000001 step_00000002 step_00000003 step_00000004 step_00000005 step_00000006 ");
  CHECK(kept({}, 0, R"(, "checkpoint": {"keep": 3})") == ".lock latest step_00000004 step_00000005 step_00000006 ");
  CHECK(kept(0, 0, R"(, "checkpoint": {"keep": 3})")
            .ends_with("latest step_00000001 step_00000002 step_00000003 "
                       "step_00000004 step_00000005 step_00000006 "));
}

TEST_CASE("a step that is saved again replaces the checkpoint with its name") {
  Folder const folder;
  auto const config = small_config(3);
  auto const save_at_two = [&](int seed_steps) {
    run_small(2, config, [&](auto& engine, auto& small, auto&) {
      train(engine, 2, [&](auto& micro, int) { micro_step(micro, small, static_cast<float>(seed_steps)); });
      engine.save(folder.path()).wait();
    });
  };
  save_at_two(1);
  auto const before = checkpoint::read_record(folder / "step_00000002").save_id;
  save_at_two(1);
  CHECK(checkpoint::read_record(folder / "step_00000002").save_id != before);
  CHECK(folder.contents() == ".lock latest step_00000002 ");
}

TEST_CASE("two jobs cannot save into one folder") {
  Folder const folder;
  int const other = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  REQUIRE(::flock(other, LOCK_EX | LOCK_NB) == 0);
  std::ofstream{folder / ".lock"} << "process 4711 on elsewhere, save 0123\n";
  auto const errors = run_small(2, small_config(2), [&](auto& engine, auto& small, auto& notes) {
    notes.push_back(error_of([&] { engine.save(folder.path()).wait(); }));
    train(engine, small, 1);
    notes.push_back(error_of([&] { engine.save(folder / "own").wait(); }));
  });
  for (auto const& each : errors) {
    REQUIRE(each.size() == 2);
    CHECK_THAT(each[0], Contains("another job is saving here: \"process 4711 on elsewhere, save 0123\"; this is job"));
    CHECK(each[1].empty());
  }
  ::close(other);
  CHECK(fs::exists(folder / "own/step_00000001/checkpoint.json"));
}

TEST_CASE("claim() locks a folder before training starts, until the engine is destroyed") {
  Folder const folder;
  run_small(2, small_config(2), [&](auto& engine, auto&, auto&) { engine.save(folder.path()).wait(); });
  auto const is_free = [](fs::path const& claimed) {
    int const lock = ::open((claimed / ".lock").c_str(), O_RDWR | O_CLOEXEC);
    bool const free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
    ::close(lock);
    return free;
  };
  CHECK(is_free(folder.path()));
  std::atomic<int> seen = 0;
  auto const see = [&](bool as_it_should_be) { seen += as_it_should_be ? 1 : 0; };
  run_small(2, small_config(2), [&](auto& engine, auto&, auto&) {
    engine.restore(folder.path());
    bool const first = this_rank().rank == 0;
    see(!first || is_free(folder.path()));
    engine.restore_latest(folder.path());
    see(!first || !is_free(folder.path()));
    engine.claim(folder / "new");
    see(!first || (!is_free(folder / "new") && is_free(folder.path())));
    engine.finish();
    if (first) {
      fs::remove_all(folder / "new");
    }
    engine.restore(folder.path());  // after it all ranks know that the folder is gone
    engine.save(folder / "new").wait();
    see(!first || !is_free(folder / "new"));  // the folder that exists now
  });
  CHECK(seen == 8);
  CHECK(is_free(folder / "new"));

  int const other = ::open((folder / ".lock").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(other, LOCK_EX | LOCK_NB) == 0);
  auto const errors = run_small(2, small_config(2), [&](auto& engine, auto&, auto& notes) {
    notes.push_back(error_of([&] { engine.claim(folder.path()); }));
    notes.push_back(error_of([&] { engine.restore_latest(folder.path()); }));
    notes.push_back(error_of([&] { engine.restore(folder.path()); }));
    notes.push_back(error_of([&] { engine.claim(""); }));
  });
  ::close(other);
  for (auto const& each : errors) {
    CHECK_THAT(each.at(0), Contains("SystemError claim() failed and changed nothing") &&
                               Contains("another job is saving here") && Contains("this is job"));
    CHECK_THAT(each.at(1), Contains("SystemError restore_latest() failed and changed nothing") &&
                               Contains("another job is saving here"));
    CHECK(each.at(2).empty());
    CHECK_THAT(each.at(3), Contains("ContractError claim(): the folder's name is empty"));
  }
}

TEST_CASE("a checkpoint that is being read is kept until a later save") {
  Folder const folder;
  auto const save_at = [&](int step) {
    run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
      train(engine, small, step);
      engine.save(folder.path(), {.program_state = {}, .order = {}, .keep = 1}).wait();
    });
  };
  save_at(1);
  {
    checkpoint::Reader const reader{folder / "step_00000001"};
    save_at(2);
    CHECK(folder.contents() == ".lock latest step_00000001 step_00000002 ");
  }
  save_at(3);
  CHECK(folder.contents() == ".lock latest step_00000003 ");
}

TEST_CASE("while another job saves and removes, restore() and find_checkpoint() always find a whole checkpoint") {
  Folder const folder;
  run_small(2, small_config(2), [&](auto& engine, auto&, auto&) { engine.save(folder.path()).wait(); });
  std::string saver;
  std::thread beside{[&] {
    saver = messages_of(run_job(2, [&](Job& job) {
      SmallModel const small;
      SmallEngine engine{job, small.model, small_config(2)};
      for (int saves = 0; saves < 40; ++saves) {
        train(engine, small, 1);
        engine.save(folder.path(), {.program_state = {}, .order = {}, .keep = 1}).wait();
      }
    }));
  }};
  auto const reader = run_job(2, [&](Job& job) {
    SmallModel const small;
    SmallEngine engine{job, small.model, small_config(3)};
    for (int times = 0; times < 20; ++times) {
      engine.restore(folder.path());
      static_cast<void>(checkpoint::find_checkpoint(folder.path()));
    }
  });
  beside.join();
  CHECK(saver == "");
  CHECK(messages_of(reader) == "");
}

TEST_CASE("if ranks do not see the same folder, a save fails and leaves nothing on any machine") {
  Folder const folder;
  for (int rank = 0; rank < 2; ++rank) {
    fs::create_directory(folder / fmt::format("{}", rank));
  }
  std::vector<std::string> errors(2);
  auto const outcome = run_job(2, [&](Job& job) {
    auto const mine = folder / fmt::format("{}", job.rank());
    expect(::unshare(CLONE_FS) == 0 && ::chdir(mine.c_str()) == 0, "no working folder of its own");
    SmallModel const small;
    SmallEngine engine{job, small.model, small_config(2)};
    errors[static_cast<std::size_t>(job.rank())] = error_of([&] { engine.save("saved").wait(); });
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : errors) {
    CHECK_THAT(each, Contains("of another rank cannot be found"));
  }
  CHECK(fs::is_empty(folder / "1/saved"));
  std::vector<fs::path> left(fs::directory_iterator{folder / "0/saved"}, fs::directory_iterator{});
  CHECK(left == std::vector{folder / "0/saved/.lock"});
}

TEST_CASE("leftovers of interrupted saves are removed, and nothing else") {
  Folder const folder;
  for (auto const* const name : {"step_00000007.00ff.partial", "step_00000003.deleting", "notes.partial", "other"}) {
    fs::create_directory(folder / name);
    std::ofstream{folder / name / "file"} << "text";
  }
  std::ofstream{folder / "latest.0123456789abcdef.partial"} << "step";
  run_small(2, small_config(2), [&](auto& engine, auto&, auto&) { engine.save(folder.path()).wait(); });
  CHECK(folder.contents() == ".lock latest notes.partial other step_00000000 ");
}

TEST_CASE(
    "an unfinished save is logged when the engine is destroyed, and leaves nothing that looks like a checkpoint") {
  Folder const folder;
  Log const log;
  run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
    train(engine, small, 1);
    static_cast<void>(engine.save(folder.path()));
  });
  CHECK(log.count("the save of step 1 into " + folder.path().string() + " was not finished") == 1);
  CHECK(checkpoint::newest_first(folder.path()).empty());
}

TEST_CASE("a trace has a lane for the reads of a save") {
  Folder const folder;
  std::vector<std::vector<Span>> spans(2);
  run_small(2, small_config(3), [&](auto& engine, auto& small, auto&) {
    Timeline timeline;
    engine.trace(&timeline);
    auto saving = engine.save(folder.path());
    train(engine, small, 1);
    saving.wait();
    engine.trace(nullptr);
    spans[static_cast<std::size_t>(this_rank().rank)] = timeline.spans();
  });
  for (auto const& each : spans) {
    // Three units with three states each, and the frozen part of one.
    CHECK(std::ranges::count_if(each, [](Span const& span) { return span.stream == "save" && span.what == "save"; }) ==
          10);
    CHECK(std::ranges::count_if(each,
                                [](Span const& span) { return span.stream == "save" && span.unit == "block1"; }) == 4);
  }
}

TEST_CASE("a resumed run uses its own stage file, and logs the differences") {
  Folder const folder;
  Log const log;
  run_small(2, small_config(1), [&](auto& engine, auto&, auto&) { engine.save(folder.path()).wait(); });
  run_small(2, small_config(3, {.more = R"(, "gradient_clipping": 0.25)"}),
            [&](auto& engine, auto&, auto&) { engine.restore(folder.path()); });
  CHECK(log.count("gradient_clipping: 0.25, was 1") == 1);
  CHECK(log.count("zero_optimization.stage: 3, was 1") == 1);
  CHECK(log.count("optimizer.params.lr") == 0);
}

}  // namespace zeroth::testing
