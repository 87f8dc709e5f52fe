// SPDX-License-Identifier: Apache-2.0
// train_gpt under `zeroth run`, killed at random times and in the middle of saves, on threads and under mpirun. In the
// end it has the same results as an undisturbed run.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "program.hpp"
#include "support/catch.hpp"

using namespace gpt;
using Catch::Contains;
using zeroth::testing::count_of;
namespace fs = std::filesystem;

namespace {

/// A step takes some milliseconds, and has four samples for each of two ranks.
std::string const model = "--layers 2 --heads 2 --channels 64 --context 32 --order shuffled --seed 5 ";
std::string const resuming = "--checkpoint saved --save-every 3 --keep 2 --resume auto ";

/// `zeroth run OPTIONS -- train_gpt ... MORE`, whose processes print which one they are.
Child::Options agent(Place const& place, std::string const& options, std::string const& more) {
  auto program = place.command(more);
  std::vector<std::string> command{ZEROTH_TOOL, "run", "--checkpoint", "saved"};
  for (auto const& word : words_of(options)) {
    command.push_back(word);
  }
  command.insert(command.end(), {"--", "sh", "-c", "echo here is process $$ here.; exec \"$@\"", "sh"});
  command.insert(command.end(), program.command.begin(), program.command.end());
  program.command = command;
  return program;
}

/// Folders of saves that are under way, or that a killed process has left.
std::set<std::string> partial_saves(Place const& place) {
  std::set<std::string> names;
  std::error_code vanished;
  for (fs::directory_iterator at{place / "saved", vanished}, end; !vanished && at != end; at.increment(vanished)) {
    if (auto const name = at->path().filename().string(); name.starts_with("step_") && name.ends_with(".partial")) {
      names.insert(name);
    }
  }
  return names;
}

/// Kills processes of an agent's attempts, one in each.
class Killer {
 public:
  Killer(Place const& place, Child& agent, int processes, unsigned seed, int most_steps = 20)
      : place_{place}, agent_{agent}, processes_{processes}, most_steps_{most_steps}, random_{seed} {}

  /// Kills a process of the next attempt, after some steps or during a save. One attempt in four has completed a save
  /// by then, because the agent gives up after too many attempts without progress.
  void kill() {
    auto const before = partial_saves(place_);
    auto const latest = latest_save();
    REQUIRE(agent_.wait_for(" here.\n", ++attempt_ * processes_));
    if (attempt_ % 2 == 0) {
      await_save(before, up_to(3));
    } else {
      while (attempt_ % 4 == 3 && latest_save() == latest) {
        REQUIRE(agent_.wait_for("\nstep ", count_of(agent_.output(), "\nstep ") + 1));
      }
      REQUIRE(agent_.wait_for("\nstep ", count_of(agent_.output(), "\nstep ") + up_to(most_steps_)));
      std::this_thread::sleep_for(std::chrono::microseconds{up_to(5000)});
    }
    REQUIRE(::kill(process(up_to(processes_) - 1), SIGKILL) == 0);
    in_saves_ += partial_saves(place_) == before ? 0 : 1;
  }
  /// A process of this attempt.
  [[nodiscard]] pid_t process(int index) const {
    std::vector<pid_t> all;
    std::string const words = "here is process ";
    for (auto at = agent_.output().find(words); at != std::string::npos; at = agent_.output().find(words, at + 1)) {
      all.push_back(std::stoi(agent_.output().substr(at + words.size())));
    }
    return all.at(all.size() - 1 - static_cast<std::size_t>(index));
  }
  [[nodiscard]] int in_saves() const noexcept { return in_saves_; }  ///< Attempts that were killed.

 private:
  /// The name of the last complete save, or nothing before the first.
  [[nodiscard]] std::string latest_save() const {
    return fs::exists(place_ / "saved/latest") ? read_all(place_ / "saved/latest") : "";
  }
  [[nodiscard]] int up_to(int most) { return std::uniform_int_distribution{1, most}(random_); }
  /// Until the attempt's `number`th save has begun.
  void await_save(std::set<std::string> seen, int number) {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{120};
    while (number > 0 && std::chrono::steady_clock::now() < deadline) {
      for (auto const& name : partial_saves(place_)) {
        number -= seen.insert(name).second ? 1 : 0;
      }
      std::this_thread::sleep_for(std::chrono::microseconds{200});
    }
    REQUIRE(number <= 0);
  }

  Place const& place_;
  Child& agent_;
  int processes_, most_steps_, attempt_ = 0, in_saves_ = 0;
  std::mt19937 random_;
};

/// The output for each step, without times. An attempt that is killed lacks its last steps. All attempts must print the
/// same for a step.
std::map<int, std::string> said_of_steps(std::string const& output) {
  std::map<int, std::string> said;
  std::istringstream lines{output};
  for (std::string line; std::getline(lines, line);) {
    auto const numbers_end = line.find(" tokens/s");
    if (line.starts_with("step ") && numbers_end != std::string::npos) {
      auto const numbers = line.substr(0, line.rfind("  ", numbers_end));
      auto const [at, is_new] = said.try_emplace(std::stoi(line.substr(5)), numbers);
      CHECK(at->second == numbers);
    }
  }
  return said;
}

std::string name_of_checkpoint(int step) {
  auto const digits = std::to_string(step);
  return "step_" + std::string(8 - digits.size(), '0') + digits;
}

/// The output of an undisturbed run, by step.
std::map<int, std::string> train_undisturbed(Place const& place, std::string const& more) {
  auto const result = run(place.command(model + more + "--report straight --save-final a"));
  INFO(result.output);
  REQUIRE(result.ending.status == 0);
  return said_of_steps(result.output);
}

/// Compares the results of a completed run that was disturbed with those of an undisturbed one.
void check_same(Place const& place, std::string const& output, std::map<int, std::string> const& undisturbed,
                int steps) {
  for (auto const& [step, numbers] : said_of_steps(output)) {
    CHECK(numbers == undisturbed.at(step));  // the same samples, and the same bits so far as they are shown
  }
  CHECK(read_all(place / "b/model.safetensors") == read_all(place / "a/model.safetensors"));
  auto const straight = numbers_of(place.report("straight"));
  auto const last = numbers_of(place.report());
  REQUIRE(!last.empty());
  CHECK(json(last) ==
        json(std::vector<json>(straight.end() - static_cast<std::ptrdiff_t>(last.size()), straight.end())));
  CHECK(read_all(place / "saved/latest") == name_of_checkpoint(steps) + "\n");
  auto const record = json::parse(read_all(place / "saved" / name_of_checkpoint(steps) / "checkpoint.json"));
  CHECK(record["samples"] == steps * 8);  // exactly
  auto const resumed = place.report()[0]["resumed"];
  CHECK(resumed["samples"] == resumed["step"].get<int>() * 8);
}

unsigned random_seed() {
  auto const seed = std::random_device{}();
  WARN("seed " << seed);
  return seed;
}

}  // namespace

TEST_CASE("threads that are killed fourteen times, and their agent once, train like an undisturbed run") {
  constexpr int steps = 600, kills = 14;
  auto const seed = random_seed();
  INFO("seed " << seed);
  Place const place;
  auto const more = "--steps " + std::to_string(steps) + " ";
  auto const undisturbed = train_undisturbed(place, more + "--ranks 2 ");
  REQUIRE(undisturbed.size() == steps);
  auto const options =
      agent(place, "--ranks 2 --max-restarts 5", model + more + resuming + "--report report --save-final b");
  std::string output;
  {
    Child child{options};
    Killer killer{place, child, 1, seed};
    for (int i = 0; i < kills; ++i) {
      INFO(child.output());
      killer.kill();
    }
    REQUIRE(child.wait_for(" here.\n", kills + 1));
    REQUIRE(child.wait_for("\nstep ", count_of(child.output(), "\nstep ") + 5));
    child.send(SIGKILL);
    CHECK(child.wait().in_time);  // at the end of what the program writes, too
    output = child.output();
    CHECK(count_of(output, "after signal 9 (Killed)") == kills);
    CHECK(killer.in_saves() >= kills / 2);
  }
  Child child{options};
  auto const ending = child.wait();
  INFO(child.output());
  REQUIRE(ending.status == 0);
  CHECK_THAT(child.output(), Contains("resumes from saved/step_00000"));
  check_same(place, output + child.output(), undisturbed, steps);
}

#ifdef TRAIN_GPT_ON_FAKES
TEST_CASE("processes over NCCL of which three are killed train like an undisturbed run, and stop on request") {
  constexpr int steps = 24, kills = 3;
  auto const seed = random_seed();
  INFO("seed " << seed);
  Place const place;
  auto const processes = [&](std::string const& more) {
    auto options = agent(place, "--ranks 2 --max-restarts 5 --transport nccl --grace 60",
                         small + "--device cuda --steps " + std::to_string(steps) + " " + more);
    std::ranges::replace(options.command, std::string{TRAIN_GPT}, std::string{TRAIN_GPT_ON_FAKES});
    return options;
  };
  auto const straight = run(processes("--report straight --save-final a"));
  INFO(straight.output);
  REQUIRE(straight.ending.status == 0);
  auto const options =
      processes("--checkpoint saved --save-every 2 --resume auto --report report --save-final b --grace 200");
  std::string output;
  {
    Child child{options};
    Killer killer{place, child, 2, seed, 3};
    for (int i = 0; i < kills; ++i) {
      INFO(child.output());
      killer.kill();
    }
    REQUIRE(child.wait_for(" here.\n", 2 * (kills + 1)));
    REQUIRE(child.wait_for("\nstep ", count_of(child.output(), "\nstep ") + 1));
    child.send(SIGUSR1);
    auto const ending = child.wait();
    output = child.output();
    INFO(output);
    REQUIRE(ending.status == 75);
    CHECK(count_of(output, "zeroth run: attempt ") == kills);
  }
  Child child{options};
  auto const ending = child.wait();
  INFO(child.output());
  REQUIRE(ending.status == 0);
  check_same(place, output + child.output(), said_of_steps(straight.output), steps);
}
#endif

#ifdef ZEROTH_MPIRUN
TEST_CASE("mpirun's ranks of which six are killed train like undisturbed threads") {
  constexpr int steps = 300, kills = 6;
  auto const seed = random_seed();
  INFO("seed " << seed);
  Place const place;
  auto const more = "--steps " + std::to_string(steps) + " ";
  auto const undisturbed = train_undisturbed(place, more + "--ranks 2 ");
  auto options = agent(place, "--ranks 2 --max-restarts 5 --transport mpi",
                       model + more + resuming + "--report report --save-final b");
  options.command.insert(options.command.begin() + 2, {"--mpirun", ZEROTH_MPIRUN});
  Child child{options};
  Killer killer{place, child, 2, seed};
  for (int i = 0; i < kills; ++i) {
    INFO(child.output());
    killer.kill();
  }
  auto const ending = child.wait();
  INFO(child.output());
  REQUIRE(ending.status == 0);
  CHECK(count_of(child.output(), "zeroth run: attempt ") == kills);
  check_same(place, child.output(), undisturbed, steps);
}
#endif

TEST_CASE("a run resumes with 2 ranks instead of 4, and then with 3, over the same samples") {
  Place const place;
  place.write("stage.json", R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "zero_optimization": {"stage": 3}})");
  auto const of_ranks = [&](int ranks, int last) {
    return agent(place, "--max-restarts 2 --ranks " + std::to_string(ranks),
                 model + resuming + "--grace 200 --report report --save-final b --steps " + std::to_string(last));
  };
  for (int const ranks : {4, 2}) {
    Child child{of_ranks(ranks, 100'000'000)};
    REQUIRE(child.wait_for("\nstep ", 10));
    child.send(ranks == 4 ? SIGUSR1 : SIGTERM);
    auto const ending = child.wait();
    INFO(child.output());
    REQUIRE(ending.status == 75);
  }
  auto const between = place.report()[0]["resumed"];
  auto const end = steps_of(place.report()).back()["step"].get<int>() + 30;
  Child last{of_ranks(3, end)};
  auto const ending = last.wait();
  INFO(last.output());
  REQUIRE(ending.status == 0);
  auto const report = place.report();
  auto const resumed = report[0]["resumed"];
  CHECK(report[0]["batch"]["train"] == 12);
  CHECK(report[0]["batch"]["accumulation"] == 4);
  CHECK(between["samples"] == between["step"].get<int>() * 12);
  CHECK(resumed["samples"] == resumed["step"].get<int>() * 12);
  CHECK(between["changes"].dump().find("world: 2, was 4") != std::string::npos);
  CHECK(resumed["changes"].dump().find("world: 3, was 2") != std::string::npos);

  auto const straight = run(place.command(model + "--ranks 3 --report straight --steps " + std::to_string(end)));
  REQUIRE(straight.ending.status == 0);
  auto const expected = steps_of(place.report("straight"));
  REQUIRE(steps_of(report).size() == 30);
  for (auto const& step : steps_of(report)) {  // sums were grouped differently before they were rounded
    auto const loss = expected[step["step"].get<std::size_t>() - 1]["loss"].get<double>();
    CHECK(step["loss"].get<double>() == Approx(loss).epsilon(1e-3));
  }

  // Now no checkpoint can be restored, so another start would not help.
  for (auto const& each : fs::directory_iterator{place / "saved"}) {
    if (fs::is_directory(each)) {
      fs::resize_file(each.path() / "place_00000.safetensors", 4096);
    }
  }
  Child storm{of_ranks(3, end + 1)};
  CHECK(storm.wait().status == 2);
  CHECK(count_of(storm.output(), "place_00000.safetensors") >= 1);
  CHECK_THAT(storm.output(), !Contains("restarts without progress used"));
}
