// SPDX-License-Identifier: Apache-2.0
/// Random sequences of events in folders of checkpoints: jobs save and are killed meanwhile, disks are full, other jobs
/// come, files are damaged and removed. After each event the next run resumes from the right checkpoint, with the bits
/// that were saved.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "expected_folder.hpp"
#include "jobs/random.hpp"
#include "jobs/watchdog.hpp"
#include "saved.hpp"
#include "small_run.hpp"
#include "support/fail_points.hpp"
#include "support/folder.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::testing {
namespace {

namespace fs = std::filesystem;
using jobs::Random;
using States = std::map<std::string, std::vector<std::byte>>;

/// A job that resumes from the folder and saves into it once.
struct Run {
  int world = 1, stage = 0, steps = 1;
  bool waits = true;    ///< Otherwise it trains on during the save.
  bool claims = false;  ///< Locks the folder first, which may not exist yet.
  Attempted attempted;
};

/// Rank 0's actions between a run's last step and its save, and after the save.
struct Around {
  std::function<void()> before = [] {}, after = [] {};
};

fs::path on_disk() { return fs::temp_directory_path(); }
/// A folder in memory if there is one, so that saves do not wait for a disk.
fs::path in_memory() { return ::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : on_disk(); }

/// One sequence of events.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : random_{seed, "sequence"}, root_{seed % 4 == 0 ? on_disk() : in_memory()} {}

  /// Runs the sequence. Returns the problem; empty if there is none.
  std::string take_place() {
    auto const count = 3 + random_.below(6);
    for (std::size_t i = 0; i < count; ++i) {
      constexpr std::array operations{&Sequence::save,        &Sequence::save,       &Sequence::kill,
                                      &Sequence::kill,        &Sequence::fail,       &Sequence::meet_another_job,
                                      &Sequence::read_beside, &Sequence::damage,     &Sequence::damage,
                                      &Sequence::lose_latest, &Sequence::lose_folder};
      said_.clear();
      auto problem = (this->*random_.among(operations))();
      page_ += "  " + said_ + '\n';
      if (problem.empty()) {
        problem = go_on();
      }
      if (!problem.empty()) {
        return problem;
      }
    }
    return {};
  }
  /// A description of the events.
  [[nodiscard]] std::string const& page() const noexcept { return page_; }

 private:
  // The events; each returns the problem.

  std::string save() {
    auto const run = draw("saves");
    return after_saving(run, train(run, {}));
  }

  /// A save in a child process that is killed during it.
  std::string kill() {
    auto const run = draw("is killed while it saves");
    auto const call = static_cast<int>(1 + random_.below(30));
    bool const by_clock = random_.once_in(3);
    auto const microseconds = static_cast<unsigned>(random_.below(60'000));
    say(by_clock ? fmt::format(", after {} us", microseconds) : fmt::format(", at call {}", call));
    saving_error_.clear();
    ::pid_t const child = ::fork();
    if (child == 0) {
      auto const problem =
          train(run, {.before = [&] { FailPoints::arm(folder(), by_clock ? 0 : call, FailPoints::kill); }});
      std::fputs(problem.c_str(), stderr);
      ::_exit(problem.empty() ? 0 : 1);
    }
    if (by_clock) {
      ::usleep(microseconds);
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      return after_saving(run, "");
    }
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
      return fmt::format("the process ended with {:x}", status);
    }
    learn(run);
    return expected_.adopt(folder(), run.attempted, End::killed);
  }

  /// A system call fails, or all calls from one on.
  std::string fail() {
    auto const run = draw("cannot write");
    auto const call = static_cast<int>(1 + random_.below(24));
    auto const error = random_.once_in(2) ? ENOSPC : EIO;
    bool const stays_so = random_.once_in(2);
    say(fmt::format(", call {} fails{} with {}", call, stays_so ? " and all behind it" : "", error));
    auto const problem = train(
        run,
        {.before =
             [&] { stays_so ? FailPoints::arm_from(folder(), call, error) : FailPoints::arm(folder(), call, error); },
         .after = [] { FailPoints::disarm(); }});
    learn(run);
    if (!problem.empty()) {
      return problem;
    }
    if (saving_error_.empty()) {
      auto const as_saved = expected_;
      expected_.save(run.attempted);
      return difference_but_for_removal(as_saved, run.attempted);
    }
    return saving_error_.find("failed and changed nothing") == std::string::npos
               ? saving_error_
               : expected_.adopt(folder(), run.attempted, stays_so ? End::killed : End::refused);
  }

  std::string meet_another_job() {
    auto run = draw("saves, and another job comes");
    run.claims = true;
    std::string wrong;
    auto const come = [&] {
      std::thread{[&] {
        auto const outcome = run_job(1, [&](Job& job) {
          SmallModel const small;
          SmallEngine engine{job, small.model, small_config(0)};
          auto const restoring = error_of([&] { engine.restore_latest(folder()); });
          auto const saving = error_of([&] { engine.save(folder()).wait(); });
          for (auto const& error : {restoring, saving}) {
            wrong += error.find("another job is saving here") == std::string::npos ? "it may come in: " + error : "";
          }
        });
        wrong += messages_of(outcome);
      }}.join();
    };
    auto const problem = after_saving(run, train(run, {.before = come}));
    return wrong.empty() ? problem : wrong;
  }

  /// A reader runs during a save. It must find the old or the new checkpoint, complete.
  std::string read_beside() {
    auto const now = expected_.restored();
    if (!now || expected_.latest != checkpoint::checkpoint_name(*now)) {
      return save();
    }
    auto const run = draw("saves beside a reader");
    auto const before = expected_.checkpoints.at(*now).id;
    std::atomic<bool> over{false};
    std::string wrong;
    std::thread reader;
    FailPoints::slow_down(std::chrono::milliseconds{1});
    auto problem = train(run, {.before =
                                   [&] {
                                     reader = std::thread{[&] {
                                       do {
                                         wrong += read({before, run.attempted.id});
                                       } while (!over && wrong.empty());
                                     }};
                                   },
                               .after =
                                   [&] {
                                     over = true;
                                     reader.join();
                                   }});
    FailPoints::slow_down(std::chrono::milliseconds{0});
    // A reader keeps its checkpoint from being removed: then the next save removes it.
    learn(run);
    if (problem.empty() && wrong.empty()) {
      auto const as_before = expected_;
      expected_.save(run.attempted);
      problem = difference_but_for_removal(as_before, run.attempted);
    }
    return wrong.empty() ? problem : wrong;
  }

  std::string damage() {
    if (expected_.checkpoints.empty()) {
      return save();
    }
    auto const step = std::next(expected_.checkpoints.begin(),
                                static_cast<std::ptrdiff_t>(random_.below(expected_.checkpoints.size())))
                          ->first;
    auto& checkpoint = expected_.checkpoints[step];
    auto const path = folder() / checkpoint::checkpoint_name(step);
    bool const of_record = random_.once_in(3);
    auto const file = path / (of_record ? checkpoint::record_name : checkpoint::file_name(0));
    auto const how = random_.below(4);
    auto const where = random_.next();
    checkpoint.whole = false;
    checkpoint.seems_whole = checkpoint.seems_whole && how == 0 && !of_record;
    if (how == 3) {
      say(fmt::format("step {} is removed", step));
      fs::remove_all(path);
      expected_.checkpoints.erase(step);
    } else if (std::error_code none; !fs::exists(file, none)) {
      say("nothing");
    } else if (how == 0) {
      say(fmt::format("a bit of step {}'s {} is another one", step, file.filename().string()));
      flip(file, where);
    } else if (how == 1) {
      say(fmt::format("step {}'s {} is cut", step, file.filename().string()));
      fs::resize_file(file, std::min<std::uintmax_t>(fs::file_size(file), where % 100));
    } else {
      say(fmt::format("step {}'s {} is removed", step, file.filename().string()));
      fs::remove(file);
    }
    return {};
  }

  std::string lose_latest() {
    constexpr std::array names{"", "step_00000001", "step_00000099", "nonsense"};
    std::string const name = random_.among(names);
    std::error_code none;
    if (!fs::is_directory(folder(), none)) {
      return save();
    }
    say(name.empty() ? "latest is removed" : "latest names " + name);
    if (name.empty()) {
      fs::remove(folder() / checkpoint::latest_name);
      expected_.latest.reset();
    } else {
      std::ofstream{folder() / checkpoint::latest_name} << name << '\n';
      expected_.latest = name;
    }
    return {};
  }

  /// The folder is removed while a job uses it.
  std::string lose_folder() {
    auto const run = draw("saves, and all that was there is removed");
    auto const problem = train(run, {.before = [&] { fs::remove_all(folder()); }});
    expected_ = {};
    return after_saving(run, problem);
  }

  // Helpers of the events.

  [[nodiscard]] fs::path folder() const { return root_ / "saved"; }
  [[nodiscard]] fs::path reference(std::string const& id) const { return root_ / ("reference " + id); }
  void say(std::string const& text) { said_ += text; }

  Run draw(std::string const& what) {
    Run run;
    run.world = static_cast<int>(1 + random_.below(3));
    run.stage = static_cast<int>(random_.below(4));
    run.steps = static_cast<int>(1 + random_.below(2));
    run.waits = !random_.once_in(3);
    run.attempted = {.step = expected_.restored().value_or(0) + run.steps,
                     .id = fmt::format("save {}", ++saves_),
                     .keep = static_cast<std::int64_t>(random_.below(4)),
                     .keep_every = random_.once_in(4) ? 2 : 0};
    say(fmt::format("a job {}: {} of step {}, {} ranks, stage {}, keep {}{}{}", what, run.attempted.id,
                    run.attempted.step, run.world, run.stage, run.attempted.keep,
                    run.attempted.keep_every > 0 ? " and every second" : "", run.waits ? "" : ", training on"));
    return run;
  }

  /// Runs the job; first saves the same states elsewhere, as a reference. Sets `saving_error_`.
  std::string train(Run const& run, Around const& around) {
    std::string problem;
    saving_error_.clear();
    auto const outcome = run_job(run.world, [&](Job& job) {
      SmallModel const small;
      SmallEngine engine{job, small.model, small_config(run.stage)};
      if (run.claims) {
        engine.claim(folder());
      }
      auto const restored = engine.restore_latest(folder(), {.order = {}, .start_over_if_all_damaged = true});
      bool const first = job.rank() == 0;
      if (first) {
        problem = compare(restored);
      }
      // Two runs that reach the same step have different weights.
      std::vector<float> const mark(300, static_cast<float>(saves_));
      engine.write(small.weights[0], mark);
      testing::train(engine, small, run.steps);
      std::span const id{run.attempted.id};
      SaveOptions options;
      options.program_state = std::as_bytes(id);
      options.keep = run.attempted.keep;
      options.keep_every = run.attempted.keep_every;
      if (first) {
        around.before();
      }
      engine.save(reference(run.attempted.id), options).wait();  // waits until all ranks are past before()
      auto const error = error_of([&] {
        auto saving = engine.save(folder(), options);
        if (run.waits) {
          return saving.wait();
        }
        testing::train(engine, small, 1);
        engine.finish();
      });
      if (first) {
        around.after();
        saving_error_ = error;
      }
    });
    auto const messages = messages_of(outcome);
    return problem.empty() ? messages : problem;
  }

  /// For a run whose save must have succeeded.
  std::string after_saving(Run const& run, std::string const& problem) {
    learn(run);
    if (!problem.empty() || !saving_error_.empty()) {
      return problem + saving_error_;
    }
    expected_.save(run.attempted);
    for (fs::directory_iterator each{folder()}, end; each != end; ++each) {
      if (auto const name = each->path().filename().string();
          name.ends_with(checkpoint::partial_suffix) || name.ends_with(checkpoint::leaving_suffix)) {
        return name + " is left";
      }
    }
    return expected_.difference(folder());
  }

  /// Empty if the folder is as `expected_`, except that what the save removes may still exist.
  std::string difference_but_for_removal(ExpectedFolder before, Attempted const& attempted) {
    auto const text = expected_.difference(folder());
    return text.empty() ? text : before.adopt(folder(), attempted, End::killed).empty() ? adopt(before) : text;
  }
  std::string adopt(ExpectedFolder const& found) {
    expected_ = found;
    return expected_.latest && expected_.restored() ? "" : "a save that ended well is not the last one";
  }

  /// Reads the states of the reference.
  void learn(Run const& run) {
    auto const path = reference(run.attempted.id);
    if (auto const name = checkpoint::latest_in(path)) {
      known_[run.attempted.id] = states_in(path / *name);
    }
    fs::remove_all(path);
  }

  std::string compare(std::optional<Restored> const& restored) const {
    auto const wanted = expected_.restored();
    if (!restored || !wanted) {
      return restored ? fmt::format("resumes from step {}, where nothing is", restored->step)
             : wanted ? fmt::format("starts over, and step {} is there", *wanted)
                      : "";
    }
    std::string const id{reinterpret_cast<char const*>(restored->program_state.data()), restored->program_state.size()};
    auto const& expected = expected_.checkpoints.at(*wanted);
    return restored->step == *wanted && id == expected.id
               ? ""
               : fmt::format("resumes from step {} of {}, not from step {} of {}", restored->step, id, *wanted,
                             expected.id);
  }

  /// Another job resumes from the folder; its states must be those of the reference.
  std::string go_on() {
    std::string problem;
    auto const check = root_ / "check";
    auto const outcome = run_job(static_cast<int>(1 + random_.below(2)), [&, stage = random_.below(4)](Job& job) {
      SmallModel const small;
      SmallEngine engine{job, small.model, small_config(static_cast<int>(stage))};
      std::optional<Restored> restored;
      auto const error = error_of([&] { restored = engine.restore_latest(folder()); });
      if (job.rank() == 0) {
        problem = error.empty() == expected_.all_damaged() ? "restore_latest(): " + error : compare(restored);
      }
      if (restored) {
        engine.save(check).wait();
      }
    });
    problem = problem.empty() ? messages_of(outcome) : problem;
    if (auto const step = expected_.restored(); problem.empty() && step) {
      auto const& id = expected_.checkpoints.at(*step).id;
      problem = states_in(checkpoint::find_checkpoint(check)) == known_.at(id) ? "" : "other bits than " + id + " had";
    }
    fs::remove_all(check);
    return problem;
  }

  /// Reads as a job that does not save.
  std::string read(std::array<std::string, 2> const& ids) {
    std::string problem;
    auto const outcome = run_job(1, [&](Job& job) {
      SmallModel const small;
      SmallEngine engine{job, small.model, small_config(0)};
      auto const restored = engine.restore(folder());
      std::string const id{reinterpret_cast<char const*>(restored.program_state.data()), restored.program_state.size()};
      problem = std::ranges::find(ids, id) == ids.end() ? "a reader finds " + id : "";
    });
    return problem.empty() ? messages_of(outcome) : problem;
  }

  static void flip(fs::path const& file, std::uint64_t where) {
    std::fstream stream{file, std::ios::in | std::ios::out | std::ios::binary};
    auto const at = static_cast<std::streamoff>(where % fs::file_size(file));
    stream.seekg(at);
    auto const before = static_cast<char>(stream.get());
    stream.seekp(at);
    stream.put(static_cast<char>(before ^ (1 << (where >> 32U) % 8)));
  }

  Random random_;
  Folder root_;
  ExpectedFolder expected_;
  std::map<std::string, States> known_;  // by id
  int saves_ = 0;
  std::string saving_error_, said_, page_;
};

struct Arguments {
  std::uint64_t seed = 1;
  std::int64_t sequences = std::numeric_limits<std::int64_t>::max();
  double minutes = std::numeric_limits<double>::infinity();
};

Arguments read_arguments(std::span<char*> texts) {
  Arguments arguments;
  for (std::size_t i = 1; i + 1 < texts.size(); i += 2) {
    std::string_view const name = texts[i];
    char const* const value = texts[i + 1];
    if (name == "--seed") {
      arguments.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--sequences") {
      arguments.sequences = std::strtoll(value, nullptr, 10);
    } else if (name == "--minutes") {
      arguments.minutes = std::strtod(value, nullptr);
    } else {
      fmt::print(stderr, "usage: test_checkpoint_sequences [--seed S] [--sequences N] [--minutes M]\n");
      std::exit(2);
    }
  }
  return arguments;
}

int run(Arguments const& arguments) {
  spdlog::set_default_logger(spdlog::null_logger_mt("sequences"));
  fmt::print("sequences from seed {} on\n", arguments.seed);
  auto const end = Clock::now() + std::chrono::duration<double>(std::min(arguments.minutes, 1e6) * 60);
  std::int64_t tried = 0, failed = 0;
  for (auto seed = arguments.seed; tried < arguments.sequences && Clock::now() < end; ++seed, ++tried) {
    std::fflush(stdout);
    Sequence sequence{seed};
    std::string problem;
    {
      jobs::Watchdog const watchdog{fmt::format("seed {}: does not end\n", seed)};
      problem = sequence.take_place();
    }
    if (!problem.empty()) {
      ++failed;
      fmt::print("seed {}: {}\n{}", seed, problem, sequence.page());
    }
  }
  fmt::print("{} sequences, {} failed\n", tried, failed);
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace zeroth::testing

int main(int count, char** arguments) {
  using namespace zeroth::testing;
  return run(read_arguments({arguments, static_cast<std::size_t>(count)}));
}
