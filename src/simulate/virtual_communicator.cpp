// SPDX-License-Identifier: Apache-2.0
#include "simulate/virtual_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "simulate/mirrored_ranks.hpp"
#include "simulate/virtual_device.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::simulate {

using comm::Collective;

VirtualBarrier::VirtualBarrier(int ranks) : meeting_{ranks}, met_(static_cast<std::size_t>(ranks)) {
  times_us_.fill(std::vector<double>(static_cast<std::size_t>(ranks)));
}

double VirtualBarrier::meet(std::size_t rank, double time_us, comm::AbortState const& abort) {
  constexpr std::chrono::milliseconds slice{50};  // how late an abort may be noticed
  auto const number = ++met_[rank];
  auto& times_us = times_us_[number % 2];
  times_us[rank] = time_us;
  meeting_.arrive(number);
  while (!meeting_.wait_until(number, Clock::now() + slice)) {
    if (abort.aborted()) {
      throw PeerError{abort.reason()};
    }
  }
  return *std::max_element(times_us.begin(), times_us.end());
}

VirtualJob::VirtualJob(Machine const& machine, int world, int simulated, ExpectedSplits splits)
    : machine_{machine}, world_{world}, splits_{std::move(splits)}, ranks_(static_cast<std::size_t>(simulated)) {
  for (int rank = 0; rank < simulated; ++rank) {
    ranks_[static_cast<std::size_t>(rank)].recorder = std::make_shared<comm::FlightRecorder>(rank, world, 1);
  }
}

std::unique_ptr<comm::Communicator> VirtualJob::communicator(int rank) {
  constexpr std::size_t none = 0;  // as splits are counted from 1
  return std::make_unique<VirtualCommunicator>(*this, comm::whole_job(none, rank, world_),
                                               barrier(none, 0, ranks_.size()));
}

std::shared_ptr<VirtualBarrier> VirtualJob::barrier(std::size_t split, int color, std::size_t ranks) {
  std::lock_guard const lock{mutex_};
  auto& barrier = barriers_[{split, color}];
  if (!barrier) {
    barrier = std::make_shared<VirtualBarrier>(static_cast<int>(ranks));
  }
  return barrier;
}

std::vector<comm::SplitRequest> VirtualJob::requests(std::size_t split, int rank, comm::SplitRequest mine) const {
  std::vector<comm::SplitRequest> requests;
  for (int each = 0; each < world_; ++each) {
    requests.push_back(splits_ ? splits_(split - 1, each) : comm::SplitRequest{0, each});
  }
  auto const& expected = requests[static_cast<std::size_t>(rank)];
  ZEROTH_EXPECTS(
      mine.color == expected.color && mine.key == expected.key,
      fmt::format("split({}, {}) of a simulated communicator by rank {}, of which split({}, {}) was expected",
                  mine.color, mine.key, rank, expected.color, expected.key));
  return requests;
}

VirtualCommunicator::VirtualCommunicator(VirtualJob& job, comm::Group group, std::shared_ptr<VirtualBarrier> barrier)
    : job_{job},
      mine_{job.ranks_[static_cast<std::size_t>(group.job_rank(group.rank))]},
      group_{std::move(group)},
      reach_{reach_of(group_.job_ranks, job.world_, job.machine_)},
      barrier_{std::move(barrier)} {}

void VirtualCommunicator::do_submit(device::Stream& stream, comm::Label const& /*label*/,
                                    std::span<Collective const> collectives) {
  auto& virtual_stream = as_virtual(stream);
  auto const here = static_cast<std::size_t>(job_.ranks_.size() > 1 ? rank() : 0);  // all ranks exist, or one
  double const earliest = job_.machine_.ordered_collectives ? mine_.last_begin_us : 0;
  double const begin = barrier_->meet(here, std::max(virtual_stream.start(), earliest), job_.abort_);
  mine_.last_begin_us = begin;
  // Collectives of one kind in one transaction are launched together and start only once.
  CollectiveCost all{.takes_compute = false, .on_network = reach_.nodes > 1};
  for (auto each = collectives.begin(); each != collectives.end();) {
    Collective together{each->operation, each->input, each->output, 0, Dtype::byte, each->peer};
    for (; each != collectives.end() && each->operation == together.operation; ++each) {
      together.count += each->count * bytes_of(each->dtype);
      if (VirtualDevice::is_real(each->output) && VirtualDevice::is_real(each->input)) {  // the numbers of a step
        exchange_with_mirrors(*each, world());
      }
    }
    auto const cost = cost_of(together, reach_, job_.machine_);
    all.latency_us += cost.latency_us;
    all.transfer_us += cost.transfer_us;
    all.takes_compute = all.takes_compute || cost.takes_compute;
    mine_.bytes_sent += cost.bytes_sent;
  }
  virtual_stream.communicate(begin, all);
}

std::unique_ptr<comm::Communicator> VirtualCommunicator::do_split(int color, int key, std::string const& name) {
  auto const split = ++mine_.splits;
  auto part = comm::part_of(group_, split, job_.requests(split, job_rank(rank()), {color, key}), name);
  auto const existing = job_.ranks_.size() > 1 ? part.job_ranks.size() : 1;
  return std::make_unique<VirtualCommunicator>(job_, std::move(part), job_.barrier(split, color, existing));
}

}  // namespace zeroth::simulate
