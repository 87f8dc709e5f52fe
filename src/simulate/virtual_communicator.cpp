// SPDX-License-Identifier: Apache-2.0
#include "simulate/virtual_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/communicators.hpp"
#include "simulate/mirrored_ranks.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::simulate {

using comm::Collective;
using comm::Operation;

namespace {

/// Whether a message carries data that the engine reads: orders and notes, whose memory is real.
bool has_bytes(Collective const& message) noexcept { return message.dtype == Dtype::byte; }

}  // namespace

VirtualBarrier::VirtualBarrier(int ranks) : meeting_{ranks}, met_(static_cast<std::size_t>(ranks)) {
  numbers_.fill(std::vector<double>(static_cast<std::size_t>(ranks)));
}

std::uint64_t VirtualBarrier::arrive(std::size_t rank, double number) {
  auto const meeting = ++met_[rank];
  numbers_[meeting % 2][rank] = number;
  meeting_.arrive(meeting);
  return meeting;
}

std::vector<double> const& VirtualBarrier::await(std::uint64_t meeting, comm::AbortState const& abort) const {
  constexpr std::chrono::milliseconds slice{50};  // an abort is noticed within this time
  while (!meeting_.wait_until(meeting, Clock::now() + slice)) {
    if (abort.aborted()) {
      throw PeerError{abort.reason()};
    }
  }
  return numbers_[meeting % 2];
}

double VirtualBarrier::meet(std::size_t rank, double time_us, comm::AbortState const& abort) {
  auto const& times_us = await(arrive(rank, time_us), abort);
  return *std::max_element(times_us.begin(), times_us.end());
}

VirtualJob::VirtualJob(Machine const& machine, int world, std::vector<int> existing, ExpectedSplits splits,
                       Seats const& seats)
    : machine_{machine},
      world_{world},
      splits_{std::move(splits)},
      seats_{seats},
      ranks_(existing.size()),
      existing_{std::move(existing)} {
  for (std::size_t at = 0; at < existing_.size(); ++at) {
    ranks_[at].recorder = std::make_shared<comm::FlightRecorder>(existing_[at], world, 1);
  }
}

std::unique_ptr<comm::Communicator> VirtualJob::communicator(int rank) {
  return std::make_unique<VirtualCommunicator>(*this, comm::whole_job(0, rank, world_));
}

std::optional<std::size_t> VirtualJob::index_of(int rank) const noexcept {
  auto const found = std::ranges::lower_bound(existing_, rank);
  return found != existing_.end() && *found == rank ? std::optional{static_cast<std::size_t>(found - existing_.begin())}
                                                    : std::nullopt;
}

Reach VirtualJob::reach(comm::Group const& group) const {
  auto seats = group.job_ranks;
  std::ranges::transform(seats, seats.begin(), [this](int rank) { return seats_.of(rank); });
  return reach_of(seats, world_, machine_);
}

std::shared_ptr<VirtualBarrier> VirtualJob::barrier(comm::Group const& group) {
  auto const existing = std::ranges::count_if(group.job_ranks, [&](int rank) { return index_of(rank).has_value(); });
  std::lock_guard const lock{mutex_};
  auto& barrier = barriers_[group.id];
  if (!barrier) {
    barrier = std::make_shared<VirtualBarrier>(static_cast<int>(existing));
  }
  return barrier;
}

VirtualCommunicator::VirtualCommunicator(VirtualJob& job, comm::Group group)
    : job_{job},
      mine_{job.ranks_[*job.index_of(group.job_rank(group.rank))]},
      group_{std::move(group)},
      reach_{job.reach(group_)},
      barrier_{job.barrier(group_)} {
  for (int rank = 0; rank < group_.world(); ++rank) {
    here_ = rank == group_.rank ? existing_ : here_;
    existing_ += job_.index_of(group_.job_rank(rank)) ? 1U : 0U;
  }
}

void VirtualCommunicator::do_message(VirtualStream& stream, Collective const& message) {
  ZEROTH_EXPECTS(group_.world() == 2 && (existing_ == 2 || job_.mirrors_last_),
                 fmt::format("a message of communicator '{}' in a simulation; allowed: messages between two simulated "
                             "ranks, on a communicator of their own",
                             group_.name));
  auto cost = cost_of(message, reach_, job_.machine_);
  cost.on_network = reach_.nodes > 1;
  mine_.bytes_sent += message.operation == Operation::send ? cost.bytes_sent : 0;
  existing_ == 2 ? exchange_with_peer(stream, message, cost) : exchange_with_mirror(stream, message, cost);
}

void VirtualCommunicator::exchange_with_peer(VirtualStream& stream, Collective const& message,
                                             CollectiveCost const& cost) {
  double const ready_us = stream.start();
  if (has_bytes(message) && message.operation == Operation::send) {
    barrier_->put(here_, {static_cast<std::byte const*>(message.input), static_cast<std::size_t>(message.count)});
  }
  auto const meeting = barrier_->arrive(here_, ready_us);
  stream.communicate_later(
      [barrier = barrier_, meeting, &abort = job_.abort_, &mine = mine_, message] {
        auto const& times_us = barrier->await(meeting, abort);
        double const begin_us = std::max(times_us[0], times_us[1]);
        if (message.operation == Operation::receive) {
          mine.received_us = begin_us;
          if (has_bytes(message)) {
            auto const bytes = barrier->bytes(meeting);
            mine.received.assign(bytes.begin(), bytes.end());
            std::ranges::copy(bytes, static_cast<std::byte*>(message.output));
          }
        }
        return begin_us;
      },
      cost);
}

void VirtualCommunicator::exchange_with_mirror(VirtualStream& stream, Collective const& message,
                                               CollectiveCost const& cost) {
  stream.communicate_later(
      [ready_us = stream.start(), &mine = mine_, message] {
        if (message.operation == Operation::send) {
          return ready_us;
        }
        if (has_bytes(message)) {
          std::ranges::copy(mine.received, static_cast<std::byte*>(message.output));
        }
        return std::max(ready_us, mine.received_us);
      },
      cost);
}

void VirtualCommunicator::do_submit(device::Stream& stream, comm::Label const& /*label*/,
                                    std::span<Collective const> collectives) {
  auto& virtual_stream = as_virtual(stream);
  if (auto const operation = collectives.front().operation;
      collectives.size() == 1 && (operation == Operation::send || operation == Operation::receive)) {
    do_message(virtual_stream, collectives.front());
    return;
  }
  double const earliest = job_.machine_.ordered_collectives ? mine_.last_begin_us : 0;
  double const ready = std::max(virtual_stream.start(), earliest);
  double const begin = barrier_->meet(here_, ready, job_.abort_);
  mine_.last_begin_us = begin;
  if (group_.name == engine::name_of_stages || group_.name == engine::name_of_ties) {
    virtual_stream.waited_for_stages(begin - ready);
  }
  // Collectives of one kind in one transaction are launched together and start only once.
  CollectiveCost all{.takes_compute = false, .on_network = reach_.nodes > 1};
  for (auto each = collectives.begin(); each != collectives.end();) {
    Collective together{each->operation, each->input, each->output, 0, Dtype::byte, each->peer};
    for (; each != collectives.end() && each->operation == together.operation; ++each) {
      together.count += each->count * bytes_of(each->dtype);
      if (VirtualDevice::is_real(each->output) && VirtualDevice::is_real(each->input)) {  // the numbers of a step
        exchange_with_mirrors(*each, world(), addends());
      }
    }
    if (together.operation == Operation::receive) {
      continue;  // its sender counts it
    }
    auto const cost = cost_of(together, reach_, job_.machine_);
    all.latency_us += cost.latency_us;
    all.transfer_us += cost.transfer_us;
    all.takes_compute = all.takes_compute || cost.takes_compute;
    mine_.bytes_sent += cost.bytes_sent;
  }
  virtual_stream.communicate(begin, all);
}

/// Workers contribute to sums. Parameter servers, which mirror each other, have no numbers of passes to contribute.
int VirtualCommunicator::addends() const noexcept {
  auto const workers = std::ranges::count_if(
      group_.job_ranks, [this](int rank) { return !job_.mirrors_last_ || rank < job_.existing_.back(); });
  return workers == 0 ? world() : static_cast<int>(workers);
}

std::vector<comm::SplitRequest> VirtualCommunicator::requests(std::size_t split, comm::SplitRequest mine) const {
  std::vector<comm::SplitRequest> requests;
  if (static_cast<int>(existing_) == group_.world()) {
    auto const colors = barrier_->await(barrier_->arrive(here_, mine.color), job_.abort_);
    auto const keys = barrier_->await(barrier_->arrive(here_, mine.key), job_.abort_);
    for (std::size_t each = 0; each < colors.size(); ++each) {
      requests.push_back({static_cast<int>(colors[each]), static_cast<int>(keys[each])});
    }
    return requests;
  }
  for (int each = 0; each < group_.world(); ++each) {
    requests.push_back(job_.splits_ ? job_.splits_(group_, split, each) : comm::SplitRequest{0, each});
  }
  auto const& expected = requests[static_cast<std::size_t>(rank())];
  ZEROTH_EXPECTS(
      mine.color == expected.color && mine.key == expected.key,
      fmt::format("split({}, {}) of a simulated communicator by rank {}, of which split({}, {}) was expected",
                  mine.color, mine.key, rank(), expected.color, expected.key));
  return requests;
}

std::unique_ptr<comm::Communicator> VirtualCommunicator::do_split(int color, int key, std::string const& name) {
  auto const split = splits_++;
  auto part = comm::part_of(group_, splits_, requests(split, {color, key}), name);
  return part.job_ranks.empty() ? nullptr : std::make_unique<VirtualCommunicator>(job_, std::move(part));
}

}  // namespace zeroth::simulate
