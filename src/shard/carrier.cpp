// SPDX-License-Identifier: Apache-2.0
#include "shard/carrier.hpp"

#include <algorithm>
#include <utility>

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
  bool const encodes = memory_->request().settings.reduce_codec != Codec::none;
  for (std::size_t h = 0; h < first.hops.size(); ++h) {
    if (encodes && first.hops[h].operation == Operation::reduce_scatter) {
      run_encoded(names, unit, trips, h);
      continue;
    }
    transaction_.clear();
    auto* free = memory_->codec_scratch(first.lane);
    for (auto const& trip : trips) {
      if (trip.codec != Codec::none) {
        transaction_.push_back(encoded(trip, h, free));
        continue;
      }
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
    for (std::size_t i = 0; i < trips.size(); ++i) {
      if (trips[i].codec != Codec::none) {
        decode(trips[i], h, transaction_[i]);
      }
    }
  }
}

/// Encodes the rank's piece at its position among all ranks' pieces.
comm::Collective Carrier::encoded(Trip const& trip, std::size_t h, std::byte*& free) {
  auto const& [operation, axes, from, to] = trip.route->hops[h];
  auto const dtype = trip.from.dtype;
  auto* const gathered = std::exchange(free, free + encoded_bytes(trip.codec, dtype, to.count()));
  auto* const piece = gathered + encoded_bytes(trip.codec, dtype, from.begin - to.begin);
  memory_->kernels().encode(memory_->stream(trip.route->lane), {.codec = trip.codec,
                                                                .source = (h == 0 ? trip.from : trip.to).at(from),
                                                                .dtype = dtype,
                                                                .count = from.count(),
                                                                .destination = piece,
                                                                .scales = BlockScales::powers_of_two});
  return {.operation = operation,
          .input = piece,
          .output = gathered,
          .count = encoded_bytes(trip.codec, dtype, from.count()),
          .dtype = Dtype::byte};
}

void Carrier::decode(Trip const& trip, std::size_t h, comm::Collective const& gather) {
  auto const& to = trip.route->hops[h].to;
  memory_->kernels().fold_received(memory_->stream(trip.route->lane),
                                   {.codec = trip.codec,
                                    .received = static_cast<std::byte const*>(gather.output),
                                    .ranks = 1,
                                    .dtype = trip.to.dtype,
                                    .count = to.count(),
                                    .output = trip.to.at(to)});
}

/// The ranks' pieces lie one after another in what is sent, and so they arrive.
void Carrier::run_encoded(Names const& names, FlatId unit, std::span<Trip const> trips, std::size_t h) {
  auto const codec = memory_->request().settings.reduce_codec;
  auto const& first = *trips.front().route;
  auto& stream = memory_->stream(first.lane);
  auto& kernels = memory_->kernels();
  int const ranks = memory_->ranks(first.lane).over(first.hops[h].axes)->world();
  auto* free = memory_->codec_scratch(first.lane);
  transaction_.clear();
  for (auto const& trip : trips) {
    auto const& hop = trip.route->hops[h];
    auto const dtype = trip.from.dtype;
    auto const* input = (h == 0 ? trip.from : trip.to).at(hop.from);
    if (!keeps_elements(codec)) {
      kernels.encode(stream, {.codec = codec,
                              .source = input,
                              .dtype = dtype,
                              .count = hop.from.count(),
                              .destination = free,
                              .errors = trip.errors});
      input = std::exchange(free, free + encoded_bytes(codec, dtype, hop.from.count()));
    }
    auto const piece_bytes = encoded_bytes(codec, dtype, hop.to.count());
    transaction_.push_back({.operation = Operation::all_to_all,
                            .input = input,
                            .output = std::exchange(free, free + ranks * piece_bytes),
                            .count = keeps_elements(codec) ? hop.to.count() : piece_bytes,
                            .dtype = keeps_elements(codec) ? dtype : Dtype::byte});
  }
  submit(first.lane, first.hops[h].axes, names, unit, transaction_);
  for (std::size_t i = 0; i < trips.size(); ++i) {
    auto const& trip = trips[i];
    auto const& to = trip.route->hops[h].to;
    kernels.fold_received(stream, {.codec = codec,
                                   .received = static_cast<std::byte const*>(transaction_[i].output),
                                   .ranks = ranks,
                                   .dtype = trip.from.dtype,
                                   .count = to.count(),
                                   .output = trip.sums == nullptr ? trip.to.at(to) : nullptr,
                                   .sums = trip.sums,
                                   .accumulate = trip.accumulate});
  }
}

std::int64_t Carrier::scratch_bytes(Layout const& layout, PlanRequest const& request) noexcept {
  auto const codec = request.settings.reduce_codec;
  std::int64_t bytes = 0;
  for (auto const& flat : layout.flats()) {
    bytes = std::max(bytes,
                     encoded_bytes(codec, precision_of(flat, request.settings).reduce, request.largest_bucket_count));
  }
  return codec == Codec::none ? 0 : keeps_elements(codec) ? bytes : 2 * bytes;
}

void Carrier::count(std::string_view what, FlatId unit, comm::Operation operation, std::int64_t bytes) {
  moved_.add(bytes, false);
  memory_->note_messages(what, unit, operation, bytes);
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
