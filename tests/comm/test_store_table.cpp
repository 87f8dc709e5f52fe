// SPDX-License-Identifier: Apache-2.0
#include "comm/store/store_table.hpp"

#include <map>

#include "support/catch.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;
using Calls = std::map<int, std::string>;
using std::chrono::seconds;

/// The replies to each rank since the last call, as "answer a|b|" or "problem ...".
Calls told(StoreTable& table) {
  Calls all;
  for (auto const& reply : table.replies) {
    BodyReader body{*reply.body};
    std::string words = reply.kind == Kind::answer ? "answer " : "problem ";
    auto const count = body.number();
    if (reply.kind == Kind::problem) {
      words += body.text(most_value_bytes);
    } else {
      for (std::uint64_t i = 0; i < count; ++i) {
        words += body.text(most_value_bytes) + "|";
      }
    }
    body.end();
    all[reply.rank] += words + "#" + std::to_string(reply.tag);
  }
  table.replies.clear();
  return all;
}

struct Table {
  explicit Table(std::size_t world) : roster(world, RankState::joined), table{roster} {}
  [[nodiscard]] StoreTable::Wait wait(int wait_seconds) const { return {begin, begin + seconds{wait_seconds}}; }
  Roster roster;
  StoreTable table;
  Clock::time_point begin = Clock::now();
};

TEST_CASE("replies go to the ranks that asked, with their tags") {
  Table t{3};
  t.table.get({1, 7}, "key", t.wait(9));
  t.table.get({2, 8}, "key", t.wait(9));
  t.table.get({2, 9}, "other", t.wait(9));
  CHECK(told(t.table).empty());
  t.table.set({0, 5}, "key", "value");
  CHECK(told(t.table) == Calls{{0, "answer #5"}, {1, "answer value|#7"}, {2, "answer value|#8"}});
  t.table.get({1, 10}, "key", t.wait(0));
  CHECK(told(t.table) == Calls{{1, "answer value|#10"}});
  t.table.leave(2);
  t.table.set({0, 6}, "other", "value");
  CHECK(told(t.table) == Calls{{0, "answer #6"}});
}

TEST_CASE("a key that is set for some reads is removed after the last, and can be set again") {
  Table t{3};
  t.table.get({1, 1}, "key", t.wait(9));
  t.table.get({2, 2}, "key", t.wait(9));
  t.table.get({2, 3}, "key", t.wait(9));
  t.table.set({0, 4}, "key", "first", 2);
  CHECK(told(t.table) == Calls{{0, "answer #4"}, {1, "answer first|#1"}, {2, "answer first|#2"}});
  t.table.set({1, 5}, "key", "second", 2);
  CHECK(told(t.table) == Calls{{1, "answer #5"}, {2, "answer second|#3"}});
  t.table.get({0, 6}, "key", t.wait(9));
  t.table.get({0, 7}, "key", t.wait(1));
  CHECK(told(t.table) == Calls{{0, "answer second|#6"}});
  t.table.expire(t.begin + seconds{1});
  CHECK(told(t.table) == Calls{{0, "problem no rank set the key 'key' within 1.00 s#7"}});
}

TEST_CASE("waits end at their deadlines, and waits for one gather at the first deadline") {
  Table t{3};
  CHECK(t.table.next_deadline() == Clock::time_point::max());
  t.table.get({0, 1}, "key", t.wait(30));
  t.table.gather({1, 2}, "all", "", t.wait(10));
  t.table.gather({2, 3}, "all", "", t.wait(20));
  CHECK(t.table.next_deadline() == t.begin + seconds{10});
  t.table.expire(t.begin + seconds{9});
  CHECK(told(t.table).empty());
  t.table.expire(t.begin + seconds{10});
  CHECK(told(t.table) == Calls{{1, "problem the gather 'all' waited 10.00 s for rank 0#2"},
                               {2, "problem the gather 'all' waited 10.00 s for rank 0#3"}});
  t.roster[2] = RankState::absent;
  t.table.expire(t.begin + seconds{30});
  CHECK(told(t.table) ==
        Calls{{0, "problem no rank set the key 'key' within 30.00 s; absent: rank 2 (has not joined)#1"}});
  CHECK(t.table.next_deadline() == Clock::time_point::max());
}

TEST_CASE("1024 ranks gather, and long lists of missing ranks are truncated") {
  constexpr int world = 1024;
  Table t{world};
  for (int rank = 0; rank < world; ++rank) {
    CHECK(t.table.replies.empty());
    t.table.gather({rank, 1}, "all", std::to_string(rank), t.wait(9));
  }
  REQUIRE(t.table.replies.size() == world);
  for (auto const& reply : t.table.replies) {
    CHECK(reply.body == t.table.replies.front().body);  // one copy for all
  }
  CHECK(t.table.replies.front().body->size() <= most_answer_bytes(world));
  t.table.replies.clear();
  t.roster.assign(world, RankState::absent);
  t.roster[5] = RankState::joined;
  t.table.gather({5, 2}, "all", "", t.wait(1));
  t.table.expire(t.begin + seconds{1});
  CHECK_THAT(told(t.table)[5], Contains("for ranks 0 (has not joined), 1 (has not joined)") &&
                                   Contains("8 (has not joined) and 1015 more"));
}

TEST_CASE("the store limits what it holds") {
  Table t{1};
  std::string const value(most_value_bytes, 'v');
  constexpr std::uint64_t most = std::uint64_t{64} << 20;
  std::uint64_t held = 0;
  for (int i = 0; held + most_value_bytes + 8 <= most; ++i) {
    auto const key = std::to_string(10'000'000 + i);
    t.table.set({0, 1}, key, value);
    held += key.size() + value.size();
    REQUIRE(t.table.replies.back().kind == Kind::answer);
    t.table.replies.clear();
  }
  t.table.set({0, 1}, "one more.", value, 1);
  CHECK_THAT(told(t.table)[0], Contains("problem the store holds") && Contains("of 67108864 that it may") &&
                                   Contains("the key 'one more.' of 4105 bytes does not fit"));
}

TEST_CASE("removed keys make room for others") {
  Table t{1};
  std::string const value(most_value_bytes, 'v');
  for (int i = 0; i < (100 << 20) / static_cast<int>(most_value_bytes); ++i) {
    t.table.set({0, 1}, "key", value, 1);
    t.table.get({0, 2}, "key", t.wait(0));
    REQUIRE(t.table.replies.size() == 2);
    REQUIRE(t.table.replies.front().kind == Kind::answer);
    REQUIRE(t.table.replies.back().kind == Kind::answer);
    t.table.replies.clear();
  }
}

}  // namespace
}  // namespace zeroth::comm
