// SPDX-License-Identifier: Apache-2.0
/// `zeroth run --log-dir --tee`: a log for each rank, its display on the screen, and the report on how ranks ended.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#include "run_support.hpp"
#include "support/catch.hpp"
#include "support/odd_streams.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

Words logged(int ranks, Words const& more = {}, char const* transport = "tcp") {
  Words words{"--transport", transport, "--ranks", std::to_string(ranks), "--log-dir", "logs"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string text_of(Folder const& folder, std::string const& name) {
  std::ifstream file{folder / name, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// Checks that the child ends by itself with this status.
void check_ends(Child& child, int status) {
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.signal == 0);
  CHECK(ending.status == status);
}

TEST_CASE("each rank's output and errors go to its own log, and not to the screen") {
  Folder const folder;
  for (auto const* const run : {"logs/run_1", "logs/run_2"}) {
    Child child{zeroth_run_script(logged(3), "echo output of $RANK; echo error of $RANK >&2", folder)};
    check_ends(child, 0);
    CHECK(child.output().empty());
    for (std::string const rank : {"0", "1", "2"}) {
      CHECK(text_of(folder, std::string{run} + "/attempt_1/rank_" + rank + ".log") ==
            "output of " + rank + "\nerror of " + rank + "\n");
    }
  }
}

TEST_CASE("the screen shows how ranks ended, and last the rank that failed first with the end of its log") {
  auto const* const script =
      "echo attempt $1 of $RANK; [ $1 = 1 ] || exit 1; "
      "[ $RANK != 1 ] || { for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; exit 1; }; "
      "while :; do sleep 0.01; done";
  Folder const folder;
  Child child{zeroth_run_script(logged(4, {"--max-restarts", "1"}), script, folder)};
  check_ends(child, 1);
  std::string lines;
  for (int i = 1; i <= 12; ++i) {
    lines += "  line " + std::to_string(i) + "\n";
  }
  CHECK(child.output().starts_with(
      "zeroth run: ranks 0, 2 to 3: signal 15 (Terminated)\n"
      "zeroth run: rank 1 failed first: exit status 1; logs/run_1/attempt_1/rank_1.log ends with:\n" +
      lines +
      "zeroth run: attempt 2 with 4 ranks in 1 s, restart 1 of 1 without progress, after rank 1: exit status 1\n"
      "zeroth run: ends after rank "));
  auto const last = child.output().substr(child.output().rfind("zeroth run: "));
  CHECK_THAT(last, Contains(" failed first: exit status 1; logs/run_1/attempt_2/rank_") &&
                       Contains(".log ends with:\n  attempt 2 of "));
}

TEST_CASE("without logs the screen shows how ranks ended, unless the end was requested") {
  Folder const folder;
  Words const options{"--transport", "tcp", "--ranks", "3"};
  Child child{zeroth_run_script(options, "[ $RANK != 2 ] || exit 2; while :; do sleep 0.01; done", folder)};
  check_ends(child, 2);
  CHECK(child.output() ==
        "zeroth run: ranks 0 to 1: signal 15 (Terminated)\nzeroth run: rank 2 failed first: exit status 2\n");
  Child asked{zeroth_run_script(options, "echo ready; while :; do sleep 0.01; done", folder)};
  REQUIRE(asked.wait_for("ready", 3));
  asked.send(SIGTERM);
  check_ends(asked, 143);
  CHECK_THAT(asked.output(), !Contains("zeroth run"));
}

TEST_CASE("with --tee the screen shows the logs as they are written, with the rank before each line") {
  Folder const folder;
  Child child{zeroth_run_script(
      logged(2, {"--tee"}), "echo ready; while [ ! -e go ]; do sleep 0.01; done; printf 'no end of %s' $RANK", folder)};
  REQUIRE(child.wait_for("ready\n", 2));
  CHECK_THAT(child.output(), Contains("[rank 0] ready\n") && Contains("[rank 1] ready\n"));
  std::ofstream{folder / "go"} << "go";
  check_ends(child, 0);
  CHECK_THAT(child.output(), Contains("[rank 0] no end of 0\n") && Contains("[rank 1] no end of 1\n"));
  CHECK(text_of(folder, "logs/run_1/attempt_1/rank_1.log") == "ready\nno end of 1");
}

TEST_CASE("with --tee no output is lost, and lines that are too long are divided") {
  Folder const folder;
  Child child{zeroth_run_script(logged(2, {"--tee"}), "seq 20000; printf '%10000d\\n' 7", folder)};
  check_ends(child, 0);
  auto const log = text_of(folder, "logs/run_1/attempt_1/rank_1.log");
  CHECK(log.size() > 100'000);
  std::string shown;
  std::istringstream lines{child.output()};
  for (std::string line; std::getline(lines, line);) {
    shown += line.starts_with("[rank 1] ") ? line.substr(9) : "";
  }
  auto expected = log;
  std::erase(expected, '\n');
  CHECK(shown == expected);
}

TEST_CASE("ranks that are threads have one log, whose end is shown when they fail") {
  Folder const folder;
  Child child{zeroth_run_script(logged(3, {"--tee"}, "local"), "echo all of them; exit 1", folder)};
  check_ends(child, 1);
  CHECK(child.output() ==
        "all of them\nzeroth run: ends after exit status 1, with 0 of 0 restarts without progress used\n"
        "zeroth run: failed: exit status 1; logs/run_1/attempt_1/ranks.log ends with:\n  all of them\n");
  Child silent{zeroth_run_script(logged(3, {}, "local"), "exit 1", folder)};
  check_ends(silent, 1);
  CHECK_THAT(silent.output(), Contains("logs/run_2/attempt_1/ranks.log is empty\n"));
}

TEST_CASE("a screen that is not read delays neither signals to the ranks nor their logs") {
  OddPipe full;
  full.fill();
  Folder const folder;
  auto options = zeroth_run_script(
      logged(2, {"--tee"}), "trap 'exit 75' TERM; seq 50000; echo > here.$RANK; while :; do sleep 0.01; done", folder);
  auto const quoted = options.command.back();
  std::ofstream{folder / "script"} << quoted;
  options.command.erase(options.command.end() - 2, options.command.end());
  options.command.emplace_back("script");
  Child child{redirected(options, full.takes(1))};
  for (int i = 0; i < 6000 && (text_of(folder, "here.0").empty() || text_of(folder, "here.1").empty()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  child.send(SIGTERM);
  check_ends(child, 75);
  CHECK_THAT(text_of(folder, "logs/run_1/attempt_1/rank_0.log"), Contains("\n49999\n50000\n"));
}

TEST_CASE("the report about a killed program begins on a new line of a terminal") {
  Folder const folder;
  auto options = zeroth_run_script({"--ranks", "2"}, "printf 'step 1/5  loss 5'; kill -9 $$", folder);
  options.on_terminal = true;
  options.environment = {{"TERM", "xterm"}};
  Child child{options};
  check_ends(child, 137);
  CHECK_THAT(child.output(), Contains("step 1/5  loss 5\r\nzeroth run: ends after signal 9 (Killed), with"));
}

TEST_CASE("logs that cannot be written are rejected before anything is started") {
  Folder const folder;
  std::ofstream{folder / "file"} << "a file";
  struct Row {
    Words options;
    std::string why;
  };
  for (auto const& row :
       {Row{{"--ranks", "2", "--tee"}, "--tee: needs --log-dir"}, Row{{"--ranks", "2", "--log-dir", ""}, "--log-dir"},
        Row{{"--ranks", "2", "--log-dir", "file/logs"}, "--log-dir file/logs: cannot create a folder there"}}) {
    Child child{zeroth_run(row.options, {"touch", "started"}, folder)};
    check_ends(child, 2);
    CHECK_THAT(child.output(), Contains(row.why));
    CHECK_FALSE(std::filesystem::exists(folder / "started"));
  }
}

}  // namespace
}  // namespace zeroth::testing
