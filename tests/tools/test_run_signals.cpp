// SPDX-License-Identifier: Apache-2.0
/// `zeroth run`: passes signals on once, and leaves no process behind.
#include <array>
#include <csignal>

#include "run_support.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

Words const restarting{"--ranks", "2", "--max-restarts", "5"};

int program_in(Child const& child) { return number_behind(child.output(), "rank 0 is process "); }

TEST_CASE("zeroth run passes on signals that request a stop, and ends like the program") {
  auto const [signal, name] =
      GENERATE(table<int, std::string>({{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}}));
  Folder const folder;
  Child child{zeroth_run_ranks(restarting, {"save_when_stopped"}, folder)};
  REQUIRE(child.wait_for("is under way.", 2));
  child.send(signal);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 75);
  CHECK(count_of(child.output(), name + ": all ranks stop at the next step") == 1);
  CHECK_THAT(child.output(), !Contains("zeroth run:"));
}

TEST_CASE("a program that fails after a stop request is not restarted") {
  Folder const folder;
  Child child{
      zeroth_run_script(restarting, "note ran; trap 'exit 1' TERM; echo ready; while :; do sleep 0.01; done", folder)};
  REQUIRE(child.wait_for("ready"));
  child.send(SIGTERM);
  auto const ending = child.wait();
  CHECK(ending.status == 1);
  CHECK(lines_of(folder, "attempts") == "ran ");
}

TEST_CASE("the program is not in the terminal's process group, and gets Ctrl-C from zeroth run") {
  Folder const folder;
  Child alone{zeroth_run_script(restarting, "echo group $(cut -d' ' -f5 /proc/$$/stat) of process $$ .", folder)};
  CHECK(alone.wait().status == 0);
  CHECK(number_behind(alone.output(), "group ") == number_behind(alone.output(), "of process "));

  auto options = zeroth_run_ranks(restarting, {"save_when_stopped"}, folder);
  options.on_terminal = true;
  Child child{options};
  REQUIRE(child.wait_for("is under way.", 2));
  child.press_ctrl_c();
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 75);
  CHECK(count_of(child.output(), "SIGINT") == 1);
}

TEST_CASE("a second SIGTERM kills a program that does not stop") {
  Folder const folder;
  Child child{zeroth_run_ranks(restarting, {"freeze_when_stopped", "--stop-grace", "1000000000"}, folder)};
  REQUIRE(child.wait_for("is under way.", 2));
  child.send(SIGTERM);
  REQUIRE(child.wait_for("stops at step", 2));
  child.send(SIGTERM);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 128 + SIGKILL);
  CHECK_THAT(child.output(), Contains("zeroth run: the second SIGTERM kills the program"));
  CHECK(is_gone(program_in(child)));
}

TEST_CASE("a signal in the pause before a restart ends zeroth run with the status of the failure") {
  struct Run {
    int signal;
    Folder folder{};
    // During the third pause, which is long enough for the signal to arrive in it even on a slow machine.
    Child child{zeroth_run_script(restarting, "note ran; exit 1", folder)};
  };
  std::array<Run, 3> runs{Run{SIGTERM}, Run{SIGINT}, Run{SIGUSR1}};
  for (auto& [signal, folder, child] : runs) {
    REQUIRE(child.wait_for("in 4 s"));
    child.send(signal);
    CHECK(child.wait().status == 1);
    CHECK(lines_of(folder, "attempts") == "ran ran ran ");
  }
}

TEST_CASE("the program does not outlive a zeroth run that is killed") {
  Folder const folder;
  Child child{zeroth_run_ranks(restarting, {"steps"}, folder)};
  REQUIRE(child.wait_for("is under way.", 2));
  child.send(SIGKILL);
  auto const ending = child.wait();  // when the output of agent and program ends
  CHECK(ending.in_time);
  CHECK(ending.signal == SIGKILL);
  CHECK(is_gone(program_in(child)));
}

TEST_CASE("processes that a failed attempt left behind are gone before the next attempt") {
  Folder const folder;
  Child child{zeroth_run_script({"--ranks", "1", "--max-restarts", "1"},
                                "if [ $1 = 1 ]; then sleep 1000 & echo left $! .; kill -9 $$; fi", folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 0);
  CHECK(is_gone(number_behind(child.output(), "left ")));
}

TEST_CASE("programs of a script get the signal that ends the script, and the grace") {
  Folder const folder;
  auto const* const program =
      "sh -c 'trap \"sleep 0.1; echo > saved; exit 75\" TERM; echo ready; while :; do sleep 0.01; done'; true";
  Child child{zeroth_run_script(restarting, program, folder)};
  REQUIRE(child.wait_for("ready"));
  child.send(SIGTERM);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 128 + SIGTERM);
  CHECK(std::filesystem::exists(folder / "saved"));

  Child stubborn{zeroth_run_script({"--ranks", "1", "--grace", "1"},
                                   "sh -c \"trap '' TERM; echo I am \\$\\$ .; while :; do sleep 0.01; done\"; true",
                                   folder)};
  REQUIRE(stubborn.wait_for(" ."));
  stubborn.send(SIGTERM);
  CHECK(stubborn.wait().in_time);
  CHECK(is_gone(number_behind(stubborn.output(), "I am ")));
}

TEST_CASE("programs of a script do not outlive the script, or a killed zeroth run") {
  Folder const folder;
  Child well{zeroth_run_script({"--ranks", "1"}, "sleep 1000 & echo left $! .", folder)};
  CHECK(well.wait().status == 0);
  CHECK(is_gone(number_behind(well.output(), "left ")));

  Child child{
      zeroth_run_script({"--ranks", "1"}, "sh -c 'echo I am $$ .; while :; do sleep 0.01; done'; true", folder)};
  REQUIRE(child.wait_for(" ."));
  child.send(SIGKILL);
  CHECK(child.wait().in_time);
  CHECK(is_gone(number_behind(child.output(), "I am ")));
}

TEST_CASE("zeroth run leaves ignored signals ignored") {
  Folder const folder;
  auto options =
      zeroth_run_script(restarting, "echo ready; while [ ! -e enough ]; do sleep 0.01; done; [ $1 = 2 ]", folder);
  options.command.insert(options.command.begin(), {"sh", "-c", "trap '' INT; exec \"$@\"", "sh"});
  Child child{options};
  REQUIRE(child.wait_for("ready"));
  child.send(SIGINT);
  std::filesystem::create_directory(folder / "enough");
  CHECK(child.wait().status == 0);  // of the second attempt, which a request to stop would have prevented
}

}  // namespace
}  // namespace zeroth::testing
