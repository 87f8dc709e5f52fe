// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/key_value_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "comm/describe.hpp"
#include "comm/key_values.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth {
namespace {

using comm::KeyValueAnswer;
using comm::KeyValueCall;
using Action = KeyValueCall::Action;
using std::chrono::milliseconds;

/// Practically unlimited, and small enough to be added to the clock without overflow.
constexpr milliseconds longest_key_wait = std::chrono::hours{24 * 365};

void expect_value(std::string_view key, std::string_view value) {
  ZEROTH_EXPECTS(value.size() <= comm::most_key_value_bytes,
                 fmt::format("KeyValueStore: the value for '{}' has {} bytes; allowed are up to {}", escaped(key),
                             value.size(), comm::most_key_value_bytes));
}

KeyValueAnswer ask(comm::KeyValues& values, KeyValueCall const& call) {
  ZEROTH_EXPECTS(
      !call.key.empty() && call.key.size() <= comm::most_key_bytes,
      fmt::format("KeyValueStore: a key of {} bytes; allowed are 1 to {}", call.key.size(), comm::most_key_bytes));
  expect_value(call.key, call.value);
  expect_value(call.key, call.expected);
  auto answer = values.call(call);
  ZEROTH_EXPECTS(answer.problem.empty(), fmt::format("KeyValueStore: {}", escaped(answer.problem)));
  return answer;
}

KeyValueAnswer get_within(comm::KeyValues& values, std::string_view key, milliseconds wait) {
  return ask(
      values,
      {.action = Action::get, .key = std::string{key}, .wait = std::clamp(wait, milliseconds{0}, longest_key_wait)});
}

}  // namespace

void KeyValueStore::set(std::string_view key, std::string_view value) {
  static_cast<void>(ask(*values_, {.action = Action::set, .key = std::string{key}, .value = std::string{value}}));
}

std::string KeyValueStore::get(std::string_view key, milliseconds timeout) {
  auto answer = get_within(*values_, key, timeout);
  if (!answer.found) {
    throw PeerError{
        fmt::format("KeyValueStore::get: no rank set the key '{}' within {}", escaped(key), comm::describe(timeout))};
  }
  return std::move(answer.value);
}

void KeyValueStore::wait(std::span<std::string const> keys, milliseconds timeout) {
  auto const deadline = Clock::now() + std::clamp(timeout, milliseconds{0}, longest_key_wait);
  std::vector<std::string> missing;
  for (auto const& key : keys) {
    auto const left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (!get_within(*values_, key, left).found) {
      missing.push_back(fmt::format("'{}'", escaped(key)));
    }
  }
  if (!missing.empty()) {
    throw PeerError{fmt::format("KeyValueStore::wait: no rank set the {} {} within {}",
                                missing.size() == 1 ? "key" : "keys", fmt::join(missing, ", "),
                                comm::describe(timeout))};
  }
}

bool KeyValueStore::check(std::string_view key) { return get_within(*values_, key, milliseconds{0}).found; }

std::int64_t KeyValueStore::add(std::string_view key, std::int64_t amount) {
  auto const answer =
      ask(*values_, {.action = Action::add, .key = std::string{key}, .value = fmt::format("{}", amount)});
  std::int64_t sum = 0;
  std::from_chars(answer.value.data(), answer.value.data() + answer.value.size(), sum);
  return sum;
}

std::string KeyValueStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return ask(*values_, {.action = Action::compare_set,
                        .key = std::string{key},
                        .value = std::string{desired},
                        .expected = std::string{expected}})
      .value;
}

bool KeyValueStore::remove(std::string_view key) {
  return ask(*values_, {.action = Action::remove, .key = std::string{key}}).found;
}

}  // namespace zeroth
