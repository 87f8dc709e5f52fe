// SPDX-License-Identifier: Apache-2.0
#include "shard/carrier.hpp"

#include <algorithm>

namespace zeroth::shard {

using comm::Operation;

Carrier::Carrier(Memory& memory) : memory_{&memory} {
  transaction_.reserve(std::max(std::size_t{2}, memory.flat_count()));  // no step allocates
}

void Carrier::run(Names const& names, FlatId unit, std::span<Trip const> trips) {
  if (trips.empty()) {
    return;
  }
  auto const& first = *trips.front().route;
  for (std::size_t h = 0; h < first.hops.size(); ++h) {
    transaction_.clear();
    for (auto const& trip : trips) {
      auto const& hop = trip.route->hops[h];
      bool const sums_apart = trip.sums != nullptr;
      transaction_.push_back({.operation = hop.operation,
                              .input = (h == 0 ? trip.from : trip.to).at(hop.from),
                              .output = sums_apart ? nullptr : trip.to.at(hop.to),
                              .count = hop.operation == Operation::all_gather ? hop.from.count() : hop.to.count(),
                              .dtype = trip.from.dtype,
                              .sums = trip.sums,
                              .accumulate = trip.accumulate});
    }
    submit(first.lane, first.hops[h].axes, names, unit, transaction_);
  }
}

void Carrier::submit(Lane lane, Axes axes, Names const& names, FlatId unit,
                     std::span<comm::Collective const> transaction) {
  bool const across_groups = axes.contains(Axis::replicate) && memory_->request().places.replicas() > 1;
  submit(*memory_->ranks(lane).over(axes), memory_->stream(lane), across_groups, names, unit, transaction);
}

void Carrier::submit_over_tensor(Names const& names, FlatId unit, std::span<comm::Collective const> transaction) {
  submit(*memory_->context().tensor, memory_->stream(Lane::reduce), false, names, unit, transaction);
}

void Carrier::submit(comm::Communicator& communicator, device::Stream& stream, bool across_groups, Names const& names,
                     FlatId unit, std::span<comm::Collective const> transaction) {
  communicator.submit(stream, {names.purpose, memory_->flat(unit).name}, transaction);
  memory_->note_call(names.what, unit, transaction, communicator);
  for (auto const& each : transaction) {
    auto const ranks = each.operation == Operation::all_reduce ? 1 : communicator.world();
    moved_.add(ranks * each.count * bytes_of(each.dtype), across_groups);
  }
}

}  // namespace zeroth::shard
