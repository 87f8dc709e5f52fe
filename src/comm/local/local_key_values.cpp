// SPDX-License-Identifier: Apache-2.0
#include "comm/local/local_key_values.hpp"

#include <algorithm>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {

KeyValueAnswer LocalKeyValues::call(KeyValueCall const& call) {
  constexpr std::chrono::milliseconds poll_interval{50};  // an abort is noticed within this time
  std::unique_lock lock{mutex_};
  if (abort_.aborted()) {
    throw PeerError{abort_.reason()};
  }
  auto const ticket = ++last_ticket_;
  auto answer = table_.call(call, ticket, Clock::now());
  if (!table_.answers.empty()) {
    changed_.notify_all();
  }
  while (!answer) {
    changed_.wait_until(lock, std::min(table_.next_deadline(), Clock::now() + poll_interval));
    if (abort_.aborted()) {
      throw PeerError{abort_.reason()};
    }
    table_.expire(Clock::now());
    answer = take_answer(ticket);
    if (!table_.answers.empty()) {  // other waits have ended as well
      changed_.notify_all();
    }
  }
  return *answer;
}

std::optional<KeyValueAnswer> LocalKeyValues::take_answer(KeyValueTable::Ticket ticket) {
  auto& answers = table_.answers;
  auto const found = std::ranges::find(answers, ticket, [](auto const& each) { return each.first; });
  if (found == answers.end()) {
    return std::nullopt;
  }
  auto answer = std::move(found->second);
  answers.erase(found);
  return answer;
}

}  // namespace zeroth::comm
