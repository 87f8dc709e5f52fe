/// Command lines of a benchmark: what it refuses, with what words, before it measures anything.
#include <filesystem>

#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth::testing {
namespace {

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
  CHECK(status == 2);
  CHECK(output ==
        "bench_step_time: " + why + "\nusage: bench_step_time [ROUNDS [TEXT [all|L1|L2 [RANKS,RANKS...]]]]\n");
}

TEST_CASE("Numbers that are none to their last character are refused") {
  std::string const allowed = "\"; allowed: whole numbers from 1 to 1000000";
  for (std::string const wrong : {"0", "-1", "2x", "1.5", "", "many", "1000001", "99999999999999999999"}) {
    check_refused({wrong}, "ROUNDS is \"" + wrong + allowed);
    check_refused({"1", "text", "L1", wrong}, "RANKS is \"" + wrong + allowed);
  }
  check_refused({"1", "text", "L1", "2,4x"}, "RANKS is \"4x" + allowed);
  check_refused({"1", "text", "L1", "2,"}, "RANKS is \"" + allowed);
  check_refused({"1", "text", "L1", ",2"}, "RANKS is \"" + allowed);
}

TEST_CASE("A load that there is not is refused, and what is too much") {
  check_refused({"1", "text", "L3"}, "LOAD is \"L3\"; allowed: all, L1, L2");
  check_refused({"1", "text", ""}, "LOAD is \"\"; allowed: all, L1, L2");
  check_refused({"1", "text", "L1", "2", "3"}, "what follows is \"3\"; allowed: nothing");
}

TEST_CASE("A text that cannot be read is named") {
  auto const [status, output] = run({"1", "/nowhere/text", "L1", "1"});
  CHECK(status == 1);
  CHECK(output.find("bench_step_time: ") == 0);
  CHECK(output.find("/nowhere/text") != std::string::npos);
}

}  // namespace
}  // namespace zeroth::testing
