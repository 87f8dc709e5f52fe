// SPDX-License-Identifier: Apache-2.0
/// `zeroth run --transport nccl`: a process for each rank, with torchrun's variables.
#include <csignal>

#include "run_support.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

Words const three_processes{"--transport", "nccl", "--ranks", "3"};

Words with(Words const& more) {
  auto words = three_processes;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_CASE("processes get their rank, the store's address and the number of restarts") {
  Folder const folder;
  Child child{zeroth_run_script(with({"--max-restarts", "1"}),
                                "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $TORCHELASTIC_RESTART_COUNT; "
                                "echo $MASTER_ADDR $MASTER_PORT $ZEROTH_JOB_TOKEN > met.$1.$RANK; "
                                "[ $RANK != 0 ] || [ $1 = 2 ]",
                                folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  for (auto const* const who : {"0/3 0/3", "1/3 1/3", "2/3 2/3"}) {
    CHECK(count_of(child.output(), std::string{who} + " 1\n") == 1);
  }
  CHECK(count_of(child.output(), "0/3 0/3 0\n") == 1);  // the other ranks may be terminated before they print it
  auto const first = lines_of(folder, "met.1.0");
  auto const second = lines_of(folder, "met.2.0");
  CHECK(lines_of(folder, "met.2.1") == second);
  CHECK(lines_of(folder, "met.2.2") == second);
  CHECK(number_behind(second, "127.0.0.1 ") > 0);
  CHECK(first != second);
}

TEST_CASE("processes that all stop and save may finish, and give one exit status") {
  Folder const folder;
  Child child{zeroth_run_script(three_processes,
                                "trap 'note asked twice' TERM; trap 'sleep 0.$RANK; note $RANK; exit 75' USR1; "
                                "echo ready; while :; do sleep 0.01; done",
                                folder)};
  REQUIRE(child.wait_for("ready", 3));
  child.send(SIGUSR1);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 75);
  auto const who = lines_of(folder, "attempts");
  CHECK(who.size() == 6);
  CHECK_THAT(who, Contains("0 ") && Contains("1 ") && Contains("2 "));
}

TEST_CASE("one failed process ends the others, after a grace") {
  Folder const folder;
  Child child{zeroth_run_script(with({"--grace", "3", "--max-restarts", "1"}),
                                "[ $1 = 1 ] || exit 0; "
                                "case $RANK in "
                                "0) trap 'note asked; exit 0' TERM; echo > here.0;; "
                                "1) trap '' TERM; echo rank 1 is $$ .; echo > here.1;; "
                                "2) while [ ! -e here.0 ] || [ ! -e here.1 ]; do sleep 0.01; done; kill -11 $$;; "
                                "esac; while :; do sleep 0.01; done",
                                folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 0);
  CHECK(lines_of(folder, "attempts") == "asked ");
  CHECK(is_gone(number_behind(child.output(), "rank 1 is ")));
  CHECK_THAT(child.output(), Contains("after rank 2: signal 11 (Segmentation fault)\n"));
}

TEST_CASE("a rank with a mistake decides the exit status, whichever rank ends first") {
  Folder const folder;
  Child child{zeroth_run_script(with({"--max-restarts", "3"}),
                                "case $RANK in "
                                "0) trap 'exit 2' TERM; echo > here.0;; "
                                "1) while [ ! -e here.0 ]; do sleep 0.01; done; exit 1;; "
                                "2) exit 0;; "
                                "esac; while :; do sleep 0.01; done",
                                folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 2);
  CHECK_THAT(child.output(), !Contains("attempt"));
}

TEST_CASE("none of several processes outlives a zeroth run that is killed") {
  Folder const folder;
  Child child{zeroth_run_script(three_processes, "echo process $RANK is $$ .; while :; do sleep 0.01; done", folder)};
  REQUIRE(child.wait_for(" .", 3));
  child.send(SIGKILL);
  CHECK(child.wait().in_time);
  for (auto const* const who : {"process 0 is ", "process 1 is ", "process 2 is "}) {
    CHECK(is_gone(number_behind(child.output(), who)));
  }
}

}  // namespace
}  // namespace zeroth::testing
