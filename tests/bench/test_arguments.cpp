// SPDX-License-Identifier: Apache-2.0
/// Command lines of a benchmark: the errors that it reports before it measures anything.
#include <filesystem>

#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth::testing {
namespace {

std::string const text = BENCH_STEP_TIME;  // an existing file, which no run reads

struct Result {
  int status;
  std::string output;
};
Result run(std::vector<std::string> words) {
  words.insert(words.begin(), BENCH_STEP_TIME);
  Child child{{.command = words, .folder = std::filesystem::current_path(), .environment = {}}};
  auto const ending = child.wait();
  REQUIRE(ending.in_time);
  return {ending.status, child.output()};
}

void check_refused(std::vector<std::string> const& words, std::string const& why) {
  auto const [status, output] = run(words);
  CHECK(status > 0);
  CHECK_THAT(output, Catch::StartsWith(why));
}

TEST_CASE("Texts that are not numbers to their last character are rejected") {
  std::string const allowed = " not in range 1 to 1000000";
  for (std::string const wrong : {"0", "-1", "2x", "1.5", "", "many", "2,4", "2,", "1000001", "99999999999999999999"}) {
    check_refused({wrong}, "ROUNDS: Value " + wrong + allowed);
    check_refused({"1", text, "L1", wrong}, "RANKS: Value " + wrong + allowed);
    check_refused({"1", text, "L1", "2", wrong}, "RANKS: Value " + wrong + allowed);
  }
}

TEST_CASE("An unknown load is rejected") {
  check_refused({"1", text, "L3"}, "LOAD: L3 not in {all,L1,L2}");
  check_refused({"1", text, ""}, "LOAD:  not in {all,L1,L2}");
}

TEST_CASE("The message about an unreadable text names its file") {
  auto const [status, output] = run({"1", "/nowhere/text", "L1", "1"});
  CHECK(status > 0);
  CHECK_THAT(output, Catch::StartsWith("TEXT: File does not exist: /nowhere/text"));
}

}  // namespace
}  // namespace zeroth::testing
