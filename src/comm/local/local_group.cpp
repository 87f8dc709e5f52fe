// SPDX-License-Identifier: Apache-2.0
#include "comm/local/local_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "comm/describe.hpp"
#include "comm/spinning.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

// A sleep and a wake-up take tens of microseconds, as long as copying a megabyte. Ranks that have done equal work leave
// at nearly the same time, so spinning pays more often at the exit than at the entrance, where arrival times differ.
constexpr std::chrono::microseconds patience_at_entrance{5}, patience_at_exit{100};

/// The whole job's ranks count, however small a rank's own group is.
Clock::duration patience_in(LocalJob const& job, Clock::duration patience) noexcept {
  return may_spin(job.world) ? patience : Clock::duration{0};
}

}  // namespace

LocalGroup::LocalGroup(std::string name, std::vector<Member> const& members, std::shared_ptr<LocalJob> job)
    : name_{std::move(name)},
      job_{std::move(job)},
      id_{++job_->groups},
      members_(members.size()),
      channels_(members.size() * members.size()),
      entrance_{world(), patience_in(*job_, patience_at_entrance)},
      exit_{world(), patience_in(*job_, patience_at_exit)},
      split_entrance_{world()},
      requests_(members.size()),
      new_names_(members.size()),
      places_(members.size()) {
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    members_[rank].job_rank = members[rank].job_rank;
    members_[rank].recorder = members[rank].recorder;
    job_ranks_.push_back(members[rank].job_rank);
  }
}

std::string LocalGroup::describe_rank(int rank) { return comm::describe_rank(name_, job_ranks_, rank, job_->world); }

void LocalGroup::fail(std::string const& reason) {
  job_->abort.abort(reason);
  throw PeerError{reason};
}

void LocalGroup::enter(int rank, Transaction const& transaction) {
  LocalMember& mine = member(rank);
  mine.transaction = &transaction;
  std::uint64_t const number = mine.entries.load(std::memory_order_relaxed) + 1;
  mine.entries.store(number, std::memory_order_release);
  entrance_.arrive(number);
  bool const on_own_thread = transaction.stream != nullptr;
  if (on_own_thread) {
    job_->waits.set(mine.job_rank, {this, number, &transaction});
  }
  auto const why = wait(
      rank, transaction.timeout, [&](Clock::time_point until) { return entrance_.wait_until(number, until); },
      [&](int other) { return member(other).entries.load(std::memory_order_acquire) < number; },
      [&] { return fmt::format("{}, transaction {}", describe(transaction), transaction.sequence); });
  if (on_own_thread) {
    job_->waits.set(mine.job_rank, {});
  }
  if (!why.empty() && entrance_.abandon(number)) {
    fail(why);
  }
}

void LocalGroup::leave(int rank) noexcept {
  std::uint64_t const number = member(rank).entries.load(std::memory_order_relaxed);
  exit_.arrive(number);
  exit_.wait_for(number);
}

std::string LocalGroup::disagreement() {
  auto const& first = *member(0).transaction;
  for (int rank = 1; rank < world(); ++rank) {
    auto const& other = *member(rank).transaction;
    if ((first.stream == nullptr) != (other.stream == nullptr)) {
      auto const kind = [](Transaction const& each) { return each.stream == nullptr ? "the host" : "a GPU"; };
      return fmt::format(
          "a transaction of communicator '{}' is on streams of different kinds: {} brought {} on {}, "
          "but {} on {}",
          name_, describe_rank(0), describe(first), kind(first), describe_rank(rank), kind(other));
    }
    if (!same(first, other)) {
      return zeroth::comm::disagreement(name_, describe_rank(0), first, describe_rank(rank), other);
    }
  }
  return {};
}

LocalGroup::Place LocalGroup::split(int rank, int color, int key, std::string const& name,
                                    std::chrono::milliseconds timeout) {
  auto const what = [&] { return fmt::format("split into '{}'", name); };
  expect_running(rank, what);
  LocalMember& mine = member(rank);
  auto const mine_at = static_cast<std::size_t>(rank);
  requests_[mine_at] = {color, key};
  new_names_[mine_at] = name;
  std::uint64_t const number = mine.splits.load(std::memory_order_relaxed) + 1;
  mine.splits.store(number, std::memory_order_release);
  split_entrance_.arrive(number);
  auto const why = wait(
      rank, timeout, [&](Clock::time_point until) { return split_entrance_.wait_until(number, until); },
      [&](int other) { return member(other).splits.load(std::memory_order_acquire) < number; }, what);
  if (!why.empty() && split_entrance_.abandon(number)) {
    fail(why);
  }
  std::scoped_lock const lock{split_mutex_};
  if (splits_done_ < number) {  // the first rank does it for all
    make_parts();
    splits_done_ = number;
  }
  return std::exchange(places_[mine_at], {});
}

void LocalGroup::make_parts() {
  std::set<int> colors;
  for (auto const& each : requests_) {
    if (each.color >= 0) {
      colors.insert(each.color);
    }
  }
  for (int const color : colors) {
    auto const ranks = ranks_of_part(requests_, color);
    auto const part = make(ranks, new_names_[static_cast<std::size_t>(ranks.front())]);
    for (int rank = 0; rank < part->world(); ++rank) {
      places_[static_cast<std::size_t>(ranks[static_cast<std::size_t>(rank)])] = {part, rank};
    }
  }
}

std::shared_ptr<LocalGroup> LocalGroup::make(std::span<int const> ranks, std::string const& name) {
  std::vector<Member> members;
  std::ranges::transform(ranks, std::back_inserter(members), [this](int rank) {
    return Member{member(rank).job_rank, member(rank).recorder};
  });
  return std::make_shared<LocalGroup>(name, members, job_);
}

std::shared_ptr<LocalGroup> LocalGroup::create(std::uint64_t id, std::span<int const> ranks, std::string const& name) {
  std::scoped_lock const lock{job_->mutex};
  auto& made = job_->made[id];
  if (made.group == nullptr) {
    made.group = make(ranks, name);
  }
  auto group = made.group;
  if (++made.taken == ranks.size()) {
    job_->made.erase(id);
  }
  return group;
}

std::string LocalGroup::why_aborted(int rank, What const& what) {
  return fmt::format("{}; {} was in {} of communicator '{}'", job_->abort.reason(), describe_rank(rank), what(), name_);
}

bool LocalGroup::has_come(int job_rank, std::uint64_t entry) {
  auto const found = std::find_if(members_.begin(), members_.end(),
                                  [job_rank](LocalMember const& each) { return each.job_rank == job_rank; });
  return found == members_.end() || found->entries.load(std::memory_order_acquire) >= entry;
}

std::string LocalGroup::why_crossed(int rank, Misses const& misses) {
  int const me = member(rank).job_rank;
  return job_->waits.look([&](std::vector<HostWaits::Wait> const& waits) -> std::string {
    auto const& mine = waits[static_cast<std::size_t>(me)];
    for (int other = 0; other < world() && mine.group == this; ++other) {
      int const they = member(other).job_rank;
      auto const& theirs = waits[static_cast<std::size_t>(they)];
      if (!misses(other) || theirs.group == nullptr || theirs.group == this ||
          theirs.group->has_come(me, theirs.entry)) {
        continue;
      }
      return fmt::format(
          "ranks {} and {} wait for each other: {} in {} of communicator '{}', {} in {} of communicator '{}'. Ranks on "
          "GPUs meet on the host: all must submit the transactions of all communicators in one order",
          me, they, me, describe(*mine.transaction), name_, they, describe(*theirs.transaction), theirs.group->name());
    }
    return {};
  });
}

std::string LocalGroup::why_to_end(int rank, Clock::time_point begin, Clock::time_point deadline, Misses const& misses,
                                   What const& what) {
  auto const where = [&] { return fmt::format("{} of communicator '{}'", what(), name_); };
  if (job_->abort.aborted()) {
    return why_aborted(rank, what);
  }
  if (member(rank).left.load(std::memory_order_acquire)) {
    return fmt::format("{} left during its own {}", describe_rank(rank), where());
  }
  for (int other = 0; other < world(); ++other) {
    // `left` is read first, so that what the rank did before it left is visible.
    if (member(other).left.load(std::memory_order_acquire) && misses(other)) {
      return fmt::format("{} left; {} was waiting for it in {}", describe_rank(other), describe_rank(rank), where());
    }
  }
  if (auto why = why_crossed(rank, misses); !why.empty()) {
    return why;
  }
  auto const now = Clock::now();
  if (now < deadline) {
    return {};
  }
  std::vector<AwaitedRank> missing;
  for (int other = 0; other < world(); ++other) {
    if (misses(other)) {
      missing.push_back({describe_rank(other), false, describe_last(*member(other).recorder)});
    }
  }
  return describe_missing(describe_rank(rank), now - begin, where(), missing, "none any more");
}

}  // namespace zeroth::comm
