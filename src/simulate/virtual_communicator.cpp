// SPDX-License-Identifier: Apache-2.0
#include "simulate/virtual_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "simulate/collective_cost.hpp"
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

VirtualJob::VirtualJob(Machine const& machine, int world, int simulated)
    : machine_{machine}, world_{world}, ranks_(static_cast<std::size_t>(simulated)) {
  for (int rank = 0; rank < simulated; ++rank) {
    ranks_[static_cast<std::size_t>(rank)].recorder = std::make_shared<comm::FlightRecorder>(rank, world, 1);
  }
}

std::unique_ptr<comm::Communicator> VirtualJob::communicator(int rank) {
  return std::make_unique<VirtualCommunicator>(*this, rank, "world");
}

std::shared_ptr<VirtualBarrier> VirtualJob::next_barrier(Rank& rank) {
  std::lock_guard const lock{mutex_};
  auto const number = rank.communicators++;
  if (number == barriers_.size()) {
    barriers_.push_back(std::make_shared<VirtualBarrier>(static_cast<int>(ranks_.size())));
  }
  return barriers_[number];
}

VirtualCommunicator::VirtualCommunicator(VirtualJob& job, int rank, std::string name)
    : job_{job},
      mine_{job.ranks_[static_cast<std::size_t>(rank)]},
      rank_{rank},
      name_{std::move(name)},
      barrier_{job.next_barrier(mine_)} {}

void VirtualCommunicator::do_submit(device::Stream& stream, comm::Label const& /*label*/,
                                    std::span<Collective const> collectives) {
  auto& virtual_stream = as_virtual(stream);
  double const begin = barrier_->meet(static_cast<std::size_t>(rank_), virtual_stream.start(), job_.abort_);
  // Collectives of one kind in one transaction are launched together and start only once.
  CollectiveCost all{.takes_compute = false};
  for (auto each = collectives.begin(); each != collectives.end();) {
    Collective together{each->operation, each->input, each->output, 0, Dtype::byte, each->peer};
    for (; each != collectives.end() && each->operation == together.operation; ++each) {
      together.count += each->count * bytes_of(each->dtype);
      if (VirtualDevice::is_real(each->output) && VirtualDevice::is_real(each->input)) {  // the numbers of a step
        exchange_with_mirrors(*each, job_.world_);
      }
    }
    auto const cost = cost_of(together, job_.world_, job_.machine_);
    all.latency_us += cost.latency_us;
    all.transfer_us += cost.transfer_us;
    all.takes_compute = all.takes_compute || cost.takes_compute;
    mine_.bytes_sent += cost.bytes_sent;
  }
  virtual_stream.communicate(begin, all);
}

std::unique_ptr<comm::Communicator> VirtualCommunicator::do_split(int color, int key, std::string const& name) {
  ZEROTH_EXPECTS(color == 0 && key == rank_,
                 fmt::format("split({}, {}) of a simulated communicator: only of all ranks, in order", color, key));
  return std::make_unique<VirtualCommunicator>(job_, rank_, name);
}

}  // namespace zeroth::simulate
