// SPDX-License-Identifier: Apache-2.0
#include "comm/peer_status_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace zeroth::comm {
namespace {

constexpr std::chrono::milliseconds between_looks{10};

}  // namespace

void PeerStatusTracker::enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun) {
  std::scoped_lock const lock{mutex_};
  begun_[communicator] = &begun;
}

void PeerStatusTracker::leave(std::uint64_t communicator, std::size_t others) {
  std::scoped_lock const lock{mutex_};
  begun_.erase(communicator);
  leavers_.leave(communicator, others);
}

std::vector<Leaver> PeerStatusTracker::who_left(std::uint64_t communicator) const {
  std::scoped_lock const lock{mutex_};
  return leavers_.of(communicator);
}

void PeerStatusTracker::note_leaver(std::uint64_t communicator, Leaver const& leaver) {
  std::scoped_lock const lock{mutex_};
  leavers_.add(communicator, leaver);
}

std::uint64_t PeerStatusTracker::begun(std::uint64_t communicator) const {
  std::scoped_lock const lock{mutex_};
  auto const found = begun_.find(communicator);
  return found == begun_.end() ? 0 : found->second->load(std::memory_order_acquire);
}

std::vector<PeerStatus> PeerStatusTracker::ask(std::vector<int> const& ranks, std::chrono::milliseconds patience,
                                               std::function<void(std::uint64_t number)> const& send,
                                               std::function<bool()> const& is_vain) {
  auto const question = std::make_shared<Question>();
  std::transform(ranks.begin(), ranks.end(), std::back_inserter(question->places), [](int rank) {
    return PeerStatus{rank, false, 0, {}};
  });
  std::uint64_t number = 0;
  {
    std::scoped_lock const lock{mutex_};
    number = ++question_count_;
    questions_[number] = question;
  }
  send(number);
  auto const target = static_cast<std::uint32_t>(ranks.size());
  auto const deadline = Clock::now() + patience;
  while (!is_vain() && Clock::now() < deadline &&
         !question->answers.wait_until(target, std::min(deadline, Clock::now() + between_looks))) {
  }
  std::scoped_lock const lock{mutex_};
  questions_.erase(number);
  return question->places;
}

void PeerStatusTracker::note_answer(std::uint64_t number, PeerStatus const& place) {
  std::scoped_lock const lock{mutex_};
  auto const question = questions_.find(number);
  if (question == questions_.end()) {
    return;
  }
  for (auto& each : question->second->places) {
    if (each.rank == place.rank && !each.answered) {
      each = place;
      question->second->answers.add();
    }
  }
}

std::string describe_silence(std::vector<PeerStatus> const& places, Memberships const& memberships) {
  auto const is_silent = [](PeerStatus const& each) { return !each.answered; };
  auto const first = std::find_if(places.begin(), places.end(), is_silent);
  if (first == places.end()) {
    return {};
  }
  auto const more = std::count_if(first + 1, places.end(), is_silent);
  return fmt::format("no answer from rank {}{}{}", first->rank, memberships.describe(first->rank),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

std::vector<int> all_others(int rank, int world) {
  std::vector<int> others(static_cast<std::size_t>(world));
  std::iota(others.begin(), others.end(), 0);
  std::erase(others, rank);
  return others;
}

}  // namespace zeroth::comm
