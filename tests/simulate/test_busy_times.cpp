// SPDX-License-Identifier: Apache-2.0
#include "simulate/busy_times.hpp"

#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "support/catch.hpp"

namespace zeroth::simulate {

TEST_CASE("Busy times count only the part within an interval") {
  BusyTimes times;
  CHECK(times.within(0, 100) == 0);
  times.add(10, 20);
  times.add(20, 30);
  times.add(40, 50);
  CHECK(times.within(0, 100) == 30);
  CHECK(times.within(12, 18) == 6);
  CHECK(times.within(12, 25) == 13);
  CHECK(times.within(30, 40) == 0);
  CHECK(times.within(45, 60) == 5);
  for (auto const& [us, busy, until] : {std::tuple{0.0, false, 10.0},
                                        {10.0, true, 20.0},
                                        {20.0, true, 30.0},
                                        {30.0, false, 40.0},
                                        {49.0, true, 50.0}}) {
    CHECK(times.at(us).busy == busy);
    CHECK(times.at(us).until_us == until);
  }
  CHECK_FALSE(times.at(50).busy);
  CHECK(std::isinf(times.at(50).until_us));
  times.forget_before(30);
  CHECK(times.within(0, 100) == 10);
  CHECK(times.within(0, 41) == 1);
}

TEST_CASE("Links send one message at a time, in order of arrival") {
  Links links;
  CHECK(links.send(10, 5) == 15);
  CHECK(links.send(12, 5) == 20);  // after the first
  CHECK(links.send(40, 10) == 50);
  CHECK(links.send(18, 25) == 55);  // from 20 to 40, and from 50 on
  CHECK(links.send(0, 4) == 4);     // in the gap before
  CHECK(links.send(0, 10) == 59);   // from 4 to 10, and from 55 on
  CHECK(links.send(30, 0) == 30);   // sending nothing does not wait
  CHECK(links.send(59, 1) == 60);
  links.forget_before(60);
  CHECK(links.send(30, 1) == 31);
}

TEST_CASE("Links are never idle while a message waits, and never send more than time allows") {
  std::mt19937 random{1};
  std::uniform_int_distribution<int> begin{0, 1000}, length{1, 30};
  for (int round = 0; round < 50; ++round) {
    Links links;
    std::vector<bool> taken(4000);  // microsecond by microsecond
    for (int i = 0; i < 60; ++i) {
      auto const from = begin(random);
      auto left = length(random);
      auto const end = links.send(from, left);
      auto at = static_cast<std::size_t>(from);
      for (; left > 0; ++at) {
        left -= taken[at] ? 0 : 1;
        taken[at] = true;
      }
      REQUIRE(end == static_cast<double>(at));
    }
  }
}

}  // namespace zeroth::simulate
