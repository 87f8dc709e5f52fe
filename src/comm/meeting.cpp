// SPDX-License-Identifier: Apache-2.0
#include "comm/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/describe.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Action = KeyValueCall::Action;
constexpr std::string_view came = "came", done = "done", verdict = "verdict";
constexpr std::string_view all_came = "all", given_up = "cancelled";

constexpr std::chrono::milliseconds patience_at_the_end{10'000};  // all have come

std::string key_of_participant(int participant) { return fmt::format("{}", participant); }

}  // namespace

KeyValueAnswer Meeting::call(Action action, std::string_view key, std::string_view value,
                             std::chrono::milliseconds wait) {
  return values_.call({.action = action,
                       .space = KeySpace::library,
                       .key = fmt::format("{}/{}", name_, key),
                       .value = std::string{value},
                       .wait = wait});
}

std::vector<int> Meeting::come(int me, std::chrono::milliseconds timeout, IfLate if_late) {
  static_cast<void>(call(Action::set, key_of_participant(me)));
  if (call(Action::add, came, "1").value == fmt::format("{}", count_)) {
    static_cast<void>(call(Action::compare_set, verdict, all_came));  // unless it was cancelled
  }
  auto answer = call(Action::get, verdict, {}, timeout);
  if (!answer.found && if_late == IfLate::cancel) {
    answer = call(Action::compare_set, verdict, given_up);  // unless the last one has just come
  }
  cancelled_ = answer.value == given_up;
  auto result = answer.value == all_came ? std::vector<int>{} : missing();
  clean_up();
  // The participants' next calls may block the rank that has the table, so none may call it again before all continue.
  if (if_late == IfLate::cancel && !cancelled_ &&
      !call(Action::meet, "end", fmt::format("{}", count_), std::max(timeout, patience_at_the_end)).found) {
    throw PeerError{fmt::format("{} ranks met, but not all of them left the meeting within {}", count_,
                                describe(std::max(timeout, patience_at_the_end)))};
  }
  return result;
}

std::vector<int> Meeting::missing() {
  std::vector<int> result;
  for (int each = 0; each < count_; ++each) {
    if (!call(Action::get, key_of_participant(each)).found) {
      result.push_back(each);
    }
  }
  return result;
}

/// The last one to end removes the keys.
void Meeting::clean_up() {
  if (call(Action::add, done, "1").value != fmt::format("{}", count_)) {
    return;
  }
  for (int each = 0; each < count_; ++each) {
    static_cast<void>(call(Action::remove, key_of_participant(each)));
  }
  for (auto const key : {came, done, verdict}) {
    static_cast<void>(call(Action::remove, key));
  }
}

}  // namespace zeroth::comm
