// SPDX-License-Identifier: Apache-2.0
// train_gpt without a reader of its output: training and its files are complete, and it reports lost output.
#include <fmt/format.h>

#include <string>

#include "program.hpp"
#include "support/catch.hpp"
#include "support/odd_streams.hpp"
#include "support/sanitized.hpp"

using namespace gpt;
using Catch::Contains;
using zeroth::testing::OddPipe;
using zeroth::testing::redirected;

TEST_CASE("train_gpt continues without a standard output, and reports it at the end") {
  OddPipe closed;
  closed.read_no_more();
  struct Row {
    std::string where, reason;
  };
  for (auto const& row : {Row{">/dev/full", "No space left on device"}, Row{">&-", "Bad file descriptor"},
                          Row{closed.takes(1), "Broken pipe"}}) {
    Place const place;
    auto const command = place.command(small + "--steps 3 --ranks 2 --report report --save-final b");
    auto const result = run(redirected(command, row.where));
    INFO(row.where << ": " << result.output);
    CHECK(result.ending.status == 1);
    CHECK(result.output == "train_gpt: standard output: " + row.reason + "\n");
    REQUIRE(!place.report().empty());
    CHECK(place.report().back()["record"] == "memory");
    CHECK(steps_of(place.report()).size() == 3);
    CHECK(std::filesystem::exists(place / "b/model.safetensors"));
  }
}

TEST_CASE("train_gpt --plan and --help report why they could not print") {
  Place const place;
  for (auto const* const more : {"--plan", "--help"}) {
    auto const result = run(redirected(place.command(more), ">/dev/full"));
    CHECK(result.ending.status == 1);
    CHECK(result.output == "train_gpt: standard output: No space left on device\n");
  }
}

TEST_CASE("train_gpt ends after a failure although its standard error is not read") {
  OddPipe full;
  full.fill();
  Place const place;
  auto const result = run(redirected(place.command(small + "--steps 1 --init gone"), full.takes(2)));
  CHECK(result.ending.in_time);
  CHECK(result.ending.status == 2);
}

TEST_CASE("a stalled reader of standard output delays neither steps nor the end") {
  OddPipe full;
  full.fill();
  Place const place;
  int const steps = zeroth::testing::sanitized ? 300 : 1500;
  auto const command = place.command(small + fmt::format("--steps {} --report report", steps));
  auto const result = run(redirected(command, full.takes(1)));
  INFO(result.output);
  CHECK(result.ending.in_time);
  CHECK(result.ending.status == 0);
  CHECK(steps_of(place.report()).size() == static_cast<std::size_t>(steps));
  // A line for each step, and one that names the matrix library.
  CHECK_THAT(result.output,
             Contains(fmt::format("zeroth: standard output was not read in time: {} lines were dropped\n", steps + 1)));
}

TEST_CASE("on a terminal train_gpt's steps overwrite each other, in lines that fit") {
  int const columns = GENERATE(40, 80, 200);
  Place const place;
  auto options = place.command(small + "--steps 5 --ranks 2 --peak-tflops 0.5");
  options.on_terminal = true;
  options.columns = columns;
  options.environment = {{"TERM", "xterm"}};
  auto const result = run(options);
  INFO(result.output);
  CHECK(result.ending.status == 0);
  std::string const over = "\r\x1b[K";
  int lines = 0;
  std::string last;
  for (auto at = result.output.find(over); at != std::string::npos; at = result.output.find(over, at + 1)) {
    auto const begin = at + over.size();
    last = result.output.substr(begin, result.output.find('\r', begin) - begin);
    CHECK(last.size() < static_cast<std::size_t>(columns));
    CHECK_THAT(last, Contains("step ") && Contains("/5  loss "));
    ++lines;
  }
  CHECK(lines >= 1);
  CHECK(lines <= 5);
  CHECK(last.starts_with("step 5/5  loss "));
  CHECK((last.find("MFU ") != std::string::npos) == (columns > 40));
  CHECK((last.find(" TFLOP/s") != std::string::npos) >= (columns > 80));
  CHECK_THAT(result.output, Contains(last + "\r\n"));
}

TEST_CASE("without a terminal train_gpt prints a full line for each step") {
  Place const place;
  auto const result = run(place.command(small + "--steps 2 --peak-tflops 0.5"));
  INFO(result.output);
  CHECK(result.ending.status == 0);
  CHECK_THAT(result.output, Contains("\nstep 1/2  loss ") && Contains(" tokens/s  ") && Contains(" TFLOP/s  MFU ") &&
                                Contains(" %  ") && Contains(" MiB per rank  0:0") && Contains(" elapsed  0:0") &&
                                Contains(" left\nstep 2/2  loss "));
  auto const refused = run(place.command(small + "--steps 2 --peak-tflops 0"));
  CHECK(refused.ending.status == 2);
  CHECK_THAT(refused.output, Contains("--peak-tflops: 0 is not a number above 0"));
}
