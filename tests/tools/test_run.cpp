// SPDX-License-Identifier: Apache-2.0
/// `zeroth run`: the ends of a run, restarts, and the number of attempts and ranks.
#include <fstream>

#include "checkpoint_mark.hpp"
#include "run_support.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using tools::CheckpointMark;

Words const three_ranks{"--ranks", "3"};

Words operator+(Words words, Words const& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Checks that the child ends by itself with this status.
void check_status(Child& child, int status) {
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.signal == 0);
  CHECK(ending.status == status);
}

TEST_CASE("zeroth run ends if the program succeeds, is stopped, or returns a status that is not a failure") {
  int const status = GENERATE(0, 2, 75, 3, 127, 200);
  Folder const folder;
  Child child{zeroth_run_script(three_ranks + Words{"--max-restarts", "5"}, "note ran; exit " + std::to_string(status),
                                folder)};
  check_status(child, status);
  CHECK(lines_of(folder, "attempts") == "ran ");
  CHECK(child.output().empty());
}

TEST_CASE("zeroth run restarts a program that failed or was killed, and prints why") {
  auto const [failing, status, why] =
      GENERATE(table<std::string, int, std::string>({{"exit 1", 1, "exit status 1"},
                                                     {"kill -9 $$", 137, "signal 9 (Killed)"},
                                                     {"exit 139", 139, "exit status 139"}}));
  Folder const folder;
  Child child{zeroth_run_script(three_ranks + Words{"--max-restarts", "2"},
                                "note $ZEROTH_THREAD_RANKS; if [ $1 = 1 ]; then " + failing + "; fi", folder)};
  check_status(child, 0);
  CHECK(lines_of(folder, "attempts") == "3 3 ");
  CHECK(child.output() ==
        "zeroth run: attempt 2 with 3 ranks in 1 s, restart 1 of 2 without progress, after " + why + "\n");

  Folder const other;
  Child last{zeroth_run_script(three_ranks, failing, other)};
  check_status(last, status);
}

TEST_CASE("a storm of failures ends with the last one's status, and the cause") {
  Folder const folder;
  Child child{
      zeroth_run_script(three_ranks + Words{"--max-restarts", "2"}, "note $ZEROTH_THREAD_RANKS; exit 1", folder)};
  check_status(child, 1);
  CHECK(lines_of(folder, "attempts") == "3 3 3 ");
  CHECK(child.output() ==
        "zeroth run: attempt 2 with 3 ranks in 1 s, restart 1 of 2 without progress, after exit status 1\n"
        "zeroth run: attempt 3 with 3 ranks in 2 s, restart 2 of 2 without progress, after exit status 1\n"
        "zeroth run: ends after exit status 1, with 2 of 2 restarts without progress used\n");
}

TEST_CASE("a failed restart is followed by one with a rank fewer, and numbers that are rejected are skipped at once") {
  Words const options{"--ranks", "4", "--max-restarts", "3", "--min-ranks"};
  auto const* const script = "note $ZEROTH_THREAD_RANKS; case $ZEROTH_THREAD_RANKS in 3) exit 2;; *) exit 1;; esac";
  Folder const folder;
  Folder const other;
  Child child{zeroth_run_script(options + Words{"2"}, script, folder)};
  Child refused{zeroth_run_script(options + Words{"3"}, script, other)};
  check_status(child, 1);
  CHECK(lines_of(folder, "attempts") == "4 4 3 2 2 ");
  CHECK_THAT(child.output(), Contains("zeroth run: attempt 4 with 2 ranks, after exit status 2\n"));
  check_status(refused, 2);
  CHECK(lines_of(other, "attempts") == "4 4 3 ");
}

TEST_CASE("after progress all restarts are available again, and no rank is dropped") {
  // Attempts 1 and 2 commit a checkpoint, and 3 does not.
  auto const* const script =
      "note $ZEROTH_THREAD_RANKS; if [ $1 -lt 3 ]; then mkdir -p saved; echo step_$1 > saved/latest; fi; exit 1";
  Words const options = three_ranks + Words{"--max-restarts", "1", "--min-ranks", "1"};
  {
    Folder const folder;
    Child child{zeroth_run_script(options + Words{"--checkpoint", "saved"}, script, folder)};
    check_status(child, 1);
    CHECK(lines_of(folder, "attempts") == "3 3 3 ");
    CHECK(count_of(child.output(), "in 1 s, restart 1 of 1 without progress") == 2);
  }
  Folder const folder;
  Child child{zeroth_run_script(options, script, folder)};  // without a folder of checkpoints
  check_status(child, 1);
  CHECK(lines_of(folder, "attempts") == "3 3 ");
}

TEST_CASE("a new or changed file latest counts as progress") {
  Folder const folder;
  auto const write = [&](std::string const& text) { std::ofstream{folder / "latest"} << text; };
  auto const none = CheckpointMark::of(folder.path());
  CHECK_FALSE(none.is_newer_than(none));
  CHECK_FALSE(CheckpointMark::of({}).is_newer_than(none));
  write("step_1");
  auto const first = CheckpointMark::of(folder.path());
  CHECK(first.is_newer_than(none));
  CHECK_FALSE(CheckpointMark::of(folder.path()).is_newer_than(first));
  CHECK_FALSE(none.is_newer_than(first));

  auto const written = std::filesystem::last_write_time(folder / "latest");
  write("step_2");
  std::filesystem::last_write_time(folder / "latest", written);
  CHECK(CheckpointMark::of(folder.path()).is_newer_than(first));  // by content
  write("step_1");
  std::filesystem::last_write_time(folder / "latest", written + std::chrono::nanoseconds{1000});
  CHECK(CheckpointMark::of(folder.path()).is_newer_than(first));  // by time
  std::filesystem::remove(folder / "latest");
  std::filesystem::create_symlink("nowhere", folder / "latest");
  CHECK(CheckpointMark::of(folder.path()).is_newer_than(first));
}

TEST_CASE("zeroth run passes arguments unchanged, and no standard input") {
  Folder const folder;
  Child child{zeroth_run(three_ranks,
                         {"sh", "-c", R"(printf '<%s>' "$@"; cat; echo .)", "sh", "--ranks", "a b", "--", "plan", ""},
                         folder)};
  check_status(child, 0);
  CHECK(child.output() == "<--ranks><a b><--><plan><>.\n");
}

TEST_CASE("an invalid command line of zeroth run is rejected with status 2") {
  Folder const folder;
  struct Row {
    Words options, program;
    std::string why;
  };
  for (auto const& row : {Row{{}, {"true"}, "--ranks is required"}, Row{three_ranks, {}, "program is required"},
                          Row{{"--ranks", "0"}, {"true"}, "--ranks: 0: allowed: a whole number from 1 to 4096"},
                          Row{three_ranks + Words{"--min-ranks", "4"}, {"true"}, "--min-ranks: 4: allowed: up to"},
                          Row{three_ranks + Words{"--max-restarts", "-1"}, {"true"}, "--max-restarts: -1: allowed"},
                          Row{three_ranks + Words{"--transport", "gloo"}, {"true"}, "--transport: gloo not in {local"},
                          Row{three_ranks + Words{"--mpirun", " "}, {"true"}, "--mpirun: is empty; allowed: a command"},
                          Row{three_ranks, {"./no such"}, "zeroth run: ./no such cannot be run: No such file"},
                          Row{three_ranks, {"/"}, "zeroth run: / cannot be run: Permission denied"}}) {
    Child child{zeroth_run(row.options, row.program, folder)};
    check_status(child, 2);
    CHECK_THAT(child.output(), Contains(row.why));
  }
}

TEST_CASE("zeroth run can start ranks as threads, and follows the exit status of launch()") {
  Folder const folder;
  Child fine{zeroth_run_ranks(three_ranks, {"fine", "--ranks", "7"}, folder)};
  check_status(fine, 0);
  CHECK(count_of(fine.output(), " is process ") == 3);

  Child wrong{zeroth_run_ranks(three_ranks + Words{"--max-restarts", "3"}, {"wrong"}, folder)};
  check_status(wrong, 2);
  CHECK_THAT(wrong.output(), Contains("[rank 1/3] the stage file has changed") && !Contains("zeroth run:"));

  Child thrown{zeroth_run_ranks(three_ranks + Words{"--max-restarts", "1"}, {"throw"}, folder)};
  check_status(thrown, 1);
  CHECK(count_of(thrown.output(), "[rank 1/3] the data are gone") == 2);
}

}  // namespace
}  // namespace zeroth::testing
