// SPDX-License-Identifier: Apache-2.0
// What a job's reason is where several ranks have waited in vain.
#include <string>
#include <vector>

#include "comm/store/inquest.hpp"
#include "support/catch.hpp"

namespace zeroth::comm {
namespace {

using Hosts = std::vector<std::string>;

Complaint complaint(std::string const& words, std::string const& letters) {
  Complaint made{words, {}};
  for (char const letter : letters) {
    made.contacts.push_back(Contact{letter});
  }
  return made;
}

TEST_CASE("a job's reason says who does not hear whom, and not what the first says") {
  Hosts const hosts{"a", "b", "c", "d"};
  Inquest inquest{4, 0, Clock::time_point::max()};
  CHECK(inquest.is_empty());
  inquest.add(3, complaint("three waited", "hhh-"));
  CHECK(inquest.find(hosts).reason == "three waited");
  CHECK(inquest.find(hosts).origin == 3);
  inquest.add(0, complaint("nought waited", "-hhh"));
  inquest.add(1, complaint("one waited", "h-sh"));
  inquest.add(2, complaint("two waited", "hs-h"));
  CHECK(inquest.find(hosts).reason ==
        "rank 2 on c does not hear rank 1 on b; rank 1 on b does not hear rank 2 on c: two waited");
  CHECK(inquest.find(hosts).origin == 1);
}

TEST_CASE("where all answer, who waits for one that waits itself has not the job's reason") {
  Inquest inquest{4, 0, Clock::time_point::max()};
  inquest.add(0, complaint("nought waited", "-hll"));
  inquest.add(2, complaint("two waited", "---l"));
  inquest.add(1, complaint("one waited", "h-ll"));
  auto const found = inquest.find({"a", "b", "c", "d"});
  CHECK(found.reason == "two waited");
  CHECK(found.origin == 2);
}

TEST_CASE("where two wait for each other, the one whose patience has ended has the job's reason") {
  for (int const first : {0, 1}) {
    Inquest inquest{2, first, Clock::time_point::max()};
    inquest.add(1 - first, complaint("was asked", first == 0 ? "l-" : "-l"));
    inquest.add(first, complaint("waited", first == 0 ? "-l" : "l-"));
    auto const found = inquest.find({"a", "b"});
    CHECK(found.reason == "waited");
    CHECK(found.origin == first);
  }
}

TEST_CASE("a rank that does not even complain is named in the words of one that misses it") {
  Hosts const hosts{"a", "b", "c"};
  Inquest inquest{3, 0, Clock::time_point::max()};
  inquest.add(0, complaint("nought waited", "-sh"));
  inquest.add(0, complaint("nought waited elsewhere", "--h"));
  inquest.add(2, complaint("two waited", "hs-"));
  CHECK(inquest.find(hosts).reason == "ranks 0 and 2 do not hear rank 1 on b: nought waited");
}

TEST_CASE("the rank that most do not hear comes first, and machines are named where there is one") {
  Inquest inquest{4, 0, Clock::time_point::max()};
  inquest.add(2, complaint("two waited", "ss-s"));
  inquest.add(0, complaint("nought waited", "-hsh"));
  inquest.add(1, complaint("one waited", "h-sh"));
  CHECK(inquest.find({"a", "a", "b", "c"}).reason ==
        "ranks 0 and 1 on a do not hear rank 2 on b; rank 2 on b does not hear ranks 0, 1 and 3: nought waited");
}

}  // namespace
}  // namespace zeroth::comm
