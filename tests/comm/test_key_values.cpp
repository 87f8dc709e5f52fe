// SPDX-License-Identifier: Apache-2.0
/// The table of the key-value store, without ranks.
#include <stdexcept>

#include "comm/key_values.hpp"
#include "support/catch.hpp"

namespace zeroth::comm {
namespace {

using Catch::Matchers::Contains;
using Action = KeyValueCall::Action;
using std::chrono::milliseconds;

Clock::time_point at(int ms) { return Clock::time_point{} + milliseconds{ms}; }

KeyValueAnswer now(KeyValueTable& table, KeyValueCall const& call) {
  auto const answer = table.call(call, 0, at(0));
  REQUIRE(answer);
  return *answer;
}

TEST_CASE("a get waits for the key, all that wait are answered, and late ones find nothing") {
  KeyValueTable table;
  KeyValueCall const get{.action = Action::get, .key = "a", .wait = milliseconds{10}};
  CHECK_FALSE(table.call(get, 1, at(0)));
  CHECK_FALSE(table.call(get, 2, at(5)));
  CHECK(table.next_deadline() == at(10));
  table.expire(at(9));
  CHECK(table.answers.empty());
  table.expire(at(10));
  REQUIRE(table.answers.size() == 1);
  CHECK(table.answers[0].first == 1);
  CHECK_FALSE(table.answers[0].second.found);
  table.answers.clear();
  CHECK(now(table, {.action = Action::set, .key = "a", .value = "x"}).problem == "");
  REQUIRE(table.answers.size() == 1);
  CHECK(table.answers[0].first == 2);
  CHECK(table.answers[0].second.value == "x");
  CHECK(table.next_deadline() == Clock::time_point::max());
}

TEST_CASE("calls that meet are answered together, once as many have come") {
  KeyValueTable table;
  KeyValueCall const meet{.action = Action::meet, .key = "a", .value = "3", .wait = milliseconds{10}};
  CHECK_FALSE(table.call(meet, 1, at(0)));
  now(table, {.action = Action::set, .key = "a", .value = "a key of the same name"});
  CHECK(table.answers.empty());
  table.expire(at(10));
  REQUIRE(table.answers.size() == 1);  // it has gone, and does not count any more
  CHECK_FALSE(table.answers[0].second.found);
  table.answers.clear();
  CHECK_FALSE(table.call(meet, 2, at(20)));
  CHECK_FALSE(table.call(meet, 3, at(20)));
  auto const last = table.call(meet, 4, at(20));
  REQUIRE(last);
  CHECK(last->found);
  REQUIRE(table.answers.size() == 2);
  CHECK(table.answers[0].first == 2);
  CHECK(table.answers[1].first == 3);
  CHECK(table.answers[0].second.found);
  CHECK_FALSE(table.call(meet, 5, at(20)));
}

TEST_CASE("keys of programs and of the library are apart") {
  KeyValueTable table;
  now(table, {.action = Action::set, .space = KeySpace::library, .key = "a", .value = "ours"});
  CHECK_FALSE(now(table, {.action = Action::get, .key = "a"}).found);
  now(table, {.action = Action::set, .key = "a", .value = "theirs"});
  CHECK(now(table, {.action = Action::get, .space = KeySpace::library, .key = "a"}).value == "ours");
  CHECK(now(table, {.action = Action::remove, .key = "a"}).found);
  CHECK(now(table, {.action = Action::get, .space = KeySpace::library, .key = "a"}).found);
}

TEST_CASE("a sum wraps around, and what is no integer is reported") {
  KeyValueTable table;
  now(table, {.action = Action::set, .key = "n", .value = "9223372036854775807"});
  CHECK(now(table, {.action = Action::add, .key = "n", .value = "1"}).value == "-9223372036854775808");
  now(table, {.action = Action::set, .key = "n", .value = "1x"});
  CHECK_THAT(now(table, {.action = Action::add, .key = "n", .value = "1"}).problem, Contains("'1x' is not an integer"));
  CHECK(now(table, {.action = Action::get, .key = "n"}).value == "1x");
}

TEST_CASE("the table is bounded, and what is removed or replaced makes room") {
  KeyValueTable table;
  std::string const large(std::size_t{32} << 20, 'x');
  auto const set = [&](char const* key, std::string const& value) {
    return now(table, {.action = Action::set, .key = key, .value = value}).problem;
  };
  CHECK(set("a", large) == "");
  CHECK_THAT(set("b", large), Contains("the key 'b' of 33554434 bytes does not fit"));
  CHECK(set("a", large) == "");
  CHECK(now(table, {.action = Action::remove, .key = "a"}).found);
  CHECK(set("b", large) == "");
}

TEST_CASE("calls and answers survive a message, and other bytes are refused") {
  KeyValueCall const call{Action::compare_set,    KeySpace::library, "key",
                          std::string("a\0b", 3), "before",          milliseconds{7}};
  auto const bytes = encode(call);
  auto const read = decode_call(bytes);
  CHECK(read.action == call.action);
  CHECK(read.space == call.space);
  CHECK(read.key == call.key);
  CHECK(read.value == call.value);
  CHECK(read.expected == call.expected);
  CHECK(read.wait == call.wait);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_THROWS_AS(decode_call(std::string_view{bytes}.substr(0, length)), std::runtime_error);
  }
  CHECK_THROWS_AS(decode_call("\x09" + bytes.substr(1)), std::runtime_error);
  auto const answer = decode_answer(encode(KeyValueAnswer{true, "value", "problem"}));
  CHECK(answer.found);
  CHECK(answer.value == "value");
  CHECK(answer.problem == "problem");
}

}  // namespace
}  // namespace zeroth::comm
