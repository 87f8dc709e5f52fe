// SPDX-License-Identifier: Apache-2.0
// The reason of a job in which waits of several ranks have timed out.
#include <string>
#include <vector>

#include "comm/store/timeout_reports.hpp"
#include "support/catch.hpp"

namespace zeroth::comm {
namespace {

using Hosts = std::vector<std::string>;

TimeoutReport report(std::string const& words, std::string const& letters) {
  TimeoutReport made{words, {}};
  for (char const letter : letters) {
    made.contacts.push_back(Contact{letter});
  }
  return made;
}

TEST_CASE("the job's reason says which ranks receive nothing from which, not what the first report says") {
  Hosts const hosts{"a", "b", "c", "d"};
  TimeoutReports reports{4, 0, Clock::time_point::max()};
  CHECK(reports.is_empty());
  reports.add(3, report("three waited", "hhh-"));
  CHECK(reports.find(hosts).reason == "three waited");
  CHECK(reports.find(hosts).origin == 3);
  reports.add(0, report("nought waited", "-hhh"));
  reports.add(1, report("one waited", "h-sh"));
  reports.add(2, report("two waited", "hs-h"));
  CHECK(reports.find(hosts).reason ==
        "rank 2 on c receives nothing from rank 1 on b; rank 1 on b receives nothing from rank 2 on c: two waited");
  CHECK(reports.find(hosts).origin == 1);
}

TEST_CASE("if all answer, a rank that waits for a waiting rank does not give the job's reason") {
  TimeoutReports reports{4, 0, Clock::time_point::max()};
  reports.add(0, report("nought waited", "-hll"));
  reports.add(2, report("two waited", "---l"));
  reports.add(1, report("one waited", "h-ll"));
  auto const found = reports.find({"a", "b", "c", "d"});
  CHECK(found.reason == "two waited");
  CHECK(found.origin == 2);
}

TEST_CASE("if two ranks wait for each other, the one that timed out gives the job's reason") {
  for (int const first : {0, 1}) {
    TimeoutReports reports{2, first, Clock::time_point::max()};
    reports.add(1 - first, report("was asked", first == 0 ? "l-" : "-l"));
    reports.add(first, report("waited", first == 0 ? "-l" : "l-"));
    auto const found = reports.find({"a", "b"});
    CHECK(found.reason == "waited");
    CHECK(found.origin == first);
  }
}

TEST_CASE("a rank that sends no report is named by a rank that misses it") {
  Hosts const hosts{"a", "b", "c"};
  TimeoutReports reports{3, 0, Clock::time_point::max()};
  reports.add(0, report("nought waited", "-sh"));
  reports.add(0, report("nought waited elsewhere", "--h"));
  reports.add(2, report("two waited", "hs-"));
  CHECK(reports.find(hosts).reason == "ranks 0 and 2 receive nothing from rank 1 on b: nought waited");
}

TEST_CASE("the rank that most ranks receive nothing from is named first, with its machine if it is known") {
  TimeoutReports reports{4, 0, Clock::time_point::max()};
  reports.add(2, report("two waited", "ss-s"));
  reports.add(0, report("nought waited", "-hsh"));
  reports.add(1, report("one waited", "h-sh"));
  CHECK(reports.find({"a", "a", "b", "c"}).reason ==
        "ranks 0 and 1 on a receive nothing from rank 2 on b; rank 2 on b receives nothing from ranks 0, 1 and 3: "
        "nought waited");
}

}  // namespace
}  // namespace zeroth::comm
