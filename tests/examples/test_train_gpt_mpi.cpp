// SPDX-License-Identifier: Apache-2.0
// The program under mpirun.
#include <csignal>
#include <string>

#include "program.hpp"
#include "support/catch.hpp"

using namespace gpt;
using Catch::Contains;

namespace {

std::string const two_processes = ZEROTH_MPIRUN " -n 2";

}  // namespace

TEST_CASE("train_gpt gives the same numbers and files from threads and from processes") {
  auto const* const precision =
      GENERATE("", R"(, "bf16": {"enabled": true})", R"(, "fp16": {"enabled": true, "initial_scale_power": 8})");
  auto const stage = GENERATE(0, 3);
  INFO("stage " << stage << precision);
  Place const place;
  place.write("stage.json", stage_file(stage, precision));
  auto const threads = run(place.command(small + "--steps 3 --ranks 2 --report threads --save-final a"));
  INFO(threads.output);
  REQUIRE(threads.ending.status == 0);
  auto const processes =
      run(place.command(small + "--steps 3 --comm mpi --report processes --save-final b", two_processes));
  INFO(processes.output);
  REQUIRE(processes.ending.status == 0);
  CHECK(numbers_of(place.report("threads")) == numbers_of(place.report("processes")));
  CHECK(read_all(place / "a/model.safetensors") == read_all(place / "b/model.safetensors"));
  auto const report = place.report("processes");
  REQUIRE(report.size() == 6);
  CHECK(report[4]["rank"] == 0);
  CHECK(report[5]["rank"] == 1);
  CHECK(report[5]["planned"] == report[5]["measured_peak"]);
}

TEST_CASE("train_gpt refuses other ranks than the launcher's, and threads under it") {
  Place const place;
  auto const ranks = run(place.command(small + "--steps 1 --ranks 3", two_processes));
  INFO(ranks.output);
  CHECK(ranks.ending.status != 0);
  CHECK_THAT(ranks.output, Contains("--ranks 3: the launcher started 2 ranks"));
  auto const local = run(place.command(small + "--steps 1 --comm local", two_processes));
  INFO(local.output);
  CHECK(local.ending.status != 0);
  CHECK_THAT(local.output, Contains("local"));
}

TEST_CASE("train_gpt's ranks must all use the same math library") {
  Place const place;
  auto const with_onednn = small + "--steps 1 --math onednn";
  if (run(place.command(with_onednn)).ending.status != 0) {
    WARN("there is no oneDNN here: nothing is tested");
    return;
  }
  auto options = place.command(small + "--steps 1 --math eigen", ZEROTH_MPIRUN " -n 1");
  for (auto const& word : place.command(with_onednn, ": -n 1").command) {
    options.command.push_back(word);
  }
  auto const mixed = run(options);
  INFO(mixed.output);
  CHECK(mixed.ending.status != 0);
  CHECK_THAT(mixed.output, Contains("--math: rank 0 multiplies by Eigen 3.") && Contains(", rank 1 by oneDNN "));
  CHECK_THAT(mixed.output, !Contains("step 1/1"));
}

TEST_CASE("train_gpt saves its files when Ctrl-C is pressed on mpirun's terminal") {
  Place const place;
  // mpirun sleeps as long before SIGTERM, and again before it kills; nothing is read meanwhile.
  auto options = place.command(small + "--steps 100000000 --grace 300 --report report --save-final b",
                               two_processes + " --mca odls_base_sigkill_timeout 3");
  options.on_terminal = true;
  Child child{options};
  REQUIRE(child.wait_for("step 3/"));
  child.press_ctrl_c();
  auto const ending = child.wait();
  INFO(child.output());
  CHECK(ending.in_time);
  auto const report = place.report();
  REQUIRE(!report.empty());
  CHECK(steps_of(report).size() >= 3);
  CHECK(report.back()["record"] == "memory");
  CHECK(std::filesystem::exists(place / "b/model.safetensors"));
  CHECK_THAT(place.contents(), !Contains("partial") && !Contains("flight"));
  CHECK_THAT(child.output(), !Contains("\x1b"));  // the terminal is mpirun's, and not this rank's
}

TEST_CASE("train_gpt's processes save and exit with status 75 on request, and threads or processes resume") {
  Place const place;
  auto const saving = small + "--checkpoint saved --keep 0 --grace 300 --report report ";
  Child child{place.command(saving + "--save-every 5 --steps 100000000 --comm mpi", two_processes)};
  REQUIRE(child.wait_for("step 8/"));
  child.send(SIGUSR1);  // mpirun passes it on, and sends SIGTERM a second before it kills
  auto const ending = child.wait();
  INFO(child.output());
  REQUIRE(ending.status == 75);
  auto const last = steps_of(place.report()).back()["step"].get<int>();
  CHECK(zeroth::testing::count_of(child.output(), "stopped after step " + std::to_string(last)) == 1);
  auto const until = " --steps " + std::to_string(last + 3);
  auto const straight = run(place.command(small + "--ranks 2 --report straight --save-final a" + until));
  auto const threads = run(place.command(small + "--ranks 2 --resume saved --save-final b" + until));
  auto const processes = run(place.command(saving + "--comm mpi --resume auto --save-final c" + until, two_processes));
  INFO(straight.output << threads.output << processes.output);
  REQUIRE(straight.ending.status == 0);
  REQUIRE(threads.ending.status == 0);
  REQUIRE(processes.ending.status == 0);
  CHECK(read_all(place / "b/model.safetensors") == read_all(place / "a/model.safetensors"));
  CHECK(read_all(place / "c/model.safetensors") == read_all(place / "a/model.safetensors"));
  auto const resumed = numbers_of(place.report());
  REQUIRE(resumed.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(resumed[i] == numbers_of(place.report("straight"))[static_cast<std::size_t>(last) + i]);
  }
  auto const in_process = run(place.command(saving + "--comm auto --resume auto --max-restarts 1", two_processes));
  CHECK(in_process.ending.status == 2);
  CHECK_THAT(in_process.output, Contains("use zeroth run --max-restarts, which restarts processes"));
}

TEST_CASE("train_gpt's processes end with one reason when their text becomes shorter") {
  Place const place;
  Child child{place.command(small + "--steps 100000000", two_processes)};
  REQUIRE(child.wait_for("step 3/"));
  std::filesystem::resize_file(place / "text", 5);
  auto const ending = child.wait();
  INFO(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status != 0);
  CHECK_THAT(child.output(), Contains("--data text: had ") && Contains(" bytes when it was opened, but has 5 now"));
}
