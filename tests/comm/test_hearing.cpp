// SPDX-License-Identifier: Apache-2.0
// Who is named where ranks do not hear each other, and what a job's reason is where several complain.
#include <initializer_list>
#include <string>
#include <vector>

#include "comm/store/hearing.hpp"
#include "comm/store/inquest.hpp"
#include "support/catch.hpp"

namespace zeroth::comm {
namespace {

using Hosts = std::vector<std::string>;

constexpr bool comes = true;
constexpr bool lost = false;

std::string judged(std::vector<Way> const& ways, Hosts const& hosts, std::initializer_list<std::size_t> spoke = {}) {
  std::vector<bool> has_spoken(hosts.size());
  for (auto const rank : spoke) {
    has_spoken[rank] = true;
  }
  auto const verdict = judge(ways, hosts, has_spoken);
  return verdict.ranks.empty() ? "nobody" : describe(verdict, hosts);
}

TEST_CASE("among machines of one rank each, the one whose pairs are apart is named, with the direction") {
  Hosts const four{"a", "b", "c", "d"};
  CHECK(judged({{1, 0, comes}, {0, 1, comes}}, four) == "nobody");
  CHECK(judged({{1, 0, lost}, {2, 0, lost}, {3, 0, lost}}, four) == "rank 0 on a hears none of ranks 1 to 3");
  CHECK(judged({{0, 1, lost}, {1, 0, comes}, {0, 2, lost}, {0, 3, lost}}, four) ==
        "rank 0 on a is heard by none of ranks 1 to 3");
  CHECK(judged({{1, 0, comes}, {2, 0, lost}, {3, 0, comes}}, four) == "rank 2 on c is not heard by rank 0 on a");
  CHECK(judged({{1, 0, comes}, {2, 0, comes}, {0, 2, lost}, {3, 0, comes}}, four) ==
        "rank 2 on c does not hear rank 0 on a");
  CHECK(judged({{0, 2, lost}, {1, 2, lost}, {2, 1, lost}, {0, 1, comes}}, four) ==
        "rank 2 on c hears none of ranks 0 and 1 and is not heard by rank 1 on b");
}

TEST_CASE("where two are equally apart the one that does not hear is named, or who has not spoken") {
  Hosts const four{"a", "b", "c", "d"};
  std::vector<Way> ways{{0, 1, comes}, {0, 2, comes}, {3, 1, comes}, {3, 2, comes}, {1, 2, lost}};
  CHECK(judged(ways, four) == "rank 2 on c does not hear rank 1 on b");
  CHECK(judged(ways, four, {1}) == "rank 2 on c does not hear rank 1 on b");
  CHECK(judged(ways, four, {2}) == "rank 1 on b is not heard by rank 2 on c");
  ways.push_back({2, 1, lost});
  CHECK(judged(ways, four) == "rank 2 on c and rank 1 on b do not hear each other");
  CHECK(judged({{1, 0, lost}}, {"a", "b"}, {0}) == "rank 1 on b is not heard by rank 0 on a");
  CHECK(judged({{0, 1, lost}, {1, 0, comes}}, {"a", "b"}, {0, 1}) == "rank 1 on b does not hear rank 0 on a");
}

TEST_CASE("machines are named as a whole where nothing passes between them, ranks where something does") {
  Hosts const three_of_two{"a", "a", "b", "b", "c", "c"};
  CHECK(judged({{1, 0, comes}, {2, 0, lost}, {3, 0, lost}, {4, 0, lost}, {5, 0, lost}}, three_of_two, {0, 1}) ==
        "rank 0 on a hears none of ranks 2 to 5");
  CHECK(judged({{1, 0, comes}, {2, 0, lost}, {3, 0, lost}, {4, 0, comes}, {5, 0, comes}}, three_of_two, {0, 1}) ==
        "ranks 2 and 3 on b are not heard by rank 0 on a");
  CHECK(judged({{1, 0, comes}, {2, 0, comes}, {3, 0, lost}, {4, 0, comes}, {5, 0, comes}}, three_of_two, {0, 1}) ==
        "rank 3 on b is not heard by rank 0 on a");
  CHECK(judged({{1, 0, lost}, {2, 0, lost}, {3, 0, comes}}, {"a", "a", "a", "a"}, {0}) ==
        "rank 1 on a is not heard by rank 0 on a");
}

Complaint complaint(std::string const& words, std::string const& letters) {
  Complaint made{words, {}};
  for (char const letter : letters) {
    made.contacts.push_back(Contact{letter});
  }
  return made;
}

TEST_CASE("a job's reason is that of who misses the one at fault, and not of who complains first") {
  Hosts const hosts{"a", "b", "c", "d"};
  Inquest inquest{4, 0, Clock::time_point::max()};
  CHECK(inquest.is_empty());
  inquest.add(3, complaint("three waited", "hhh-"));
  CHECK(inquest.find(hosts).reason == "three waited");
  CHECK(inquest.find(hosts).origin == 3);
  inquest.add(0, complaint("nought waited", "-hhh"));
  inquest.add(1, complaint("one waited", "h-qh"));
  inquest.add(2, complaint("two waited", "hs-h"));
  CHECK(inquest.find(hosts).reason == "rank 2 on c does not hear rank 1 on b: two waited");
  CHECK(inquest.find(hosts).origin == 2);
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
  CHECK(inquest.find(hosts).reason == "rank 1 on b is heard by none of ranks 0 and 2: nought waited");
}

}  // namespace
}  // namespace zeroth::comm
