// SPDX-License-Identifier: Apache-2.0
#include "shard/disk_parameters.hpp"

#include <algorithm>
#include <utility>

#include "core/block_file.hpp"
#include "device/kernels.hpp"

namespace zeroth::shard {
namespace {

/// Each flat unit's is one array, in which every slice, and what is frozen, begins with a whole block.
ById<FlatId, StoredStates> stored_parameters(Layout const& layout, MemoryPlan const& plan, PlanRequest const& request,
                                             int place) {
  ById<FlatId, StoredStates> all;
  for (auto const flat : plan.flats.ids()) {
    StoredStates states;
    if (auto const at = plan.flats[flat].parameters_on_disk; at >= 0) {
      auto const stored = slices_on_disk(layout.flats()[flat], request);
      states.front() = {at,           0,      bytes_of(request.precision.compute),
                        "parameters", stored, stored.slices > 1 ? place - request.places.first_replica(place) : 0};
    }
    all.push_back(std::move(states));
  }
  return all;
}

}  // namespace

DiskParameters::DiskParameters(device::Device& device, Layout const& layout, MemoryPlan const& plan,
                               PlanRequest const& request, int place, std::function<void()> check)
    : device_{&device},
      layout_{&layout},
      plan_{&plan},
      request_{&request},
      states_{device,
              layout,
              plan.parameters_disk,
              request.offload_parameters.disk,
              stored_parameters(layout, plan, request, place),
              std::move(check),
              {"read shards", "write shards"}},
      most_in_buffer_{plan.parameters_disk.tile_bytes / bytes_of(request.precision.compute)},
      waits_{device.make_stream("compute", device::Overlap::off)} {
  for (int i = 0; i < plan.parameters_disk.gather_buffers; ++i) {
    buffers_.push_back({states_.gather_buffer(i), device.make_event(), device.make_event()});
  }
  for (auto const flat : layout.flats().ids()) {
    written_.push_back(has(flat) ? device.make_event() : nullptr);
    arrived_.push_back(has(flat) ? device.make_event() : nullptr);
  }
  ahead_.reserve(layout.flats().size());
}

/// Elements.
std::int64_t DiskParameters::frozen_held(FlatId flat) const noexcept {
  return held(layout_->flats()[flat].frozen, request_->placements.parameters, request_->places, 0).count();
}

std::int64_t DiskParameters::first_of(FlatId flat, bool trainable) const noexcept {
  return trainable ? 0 : frozen_on_disk(layout_->flats()[flat], *request_);
}

DiskParameters::Pieces DiskParameters::pieces(FlatId flat) const noexcept {
  auto const stored = slices_on_disk(layout_->flats()[flat], *request_);
  auto const count = [&](std::int64_t elements) { return (elements + most_in_buffer_ - 1) / most_in_buffer_; };
  return {stored.slices * count(stored.count), count(frozen_held(flat))};
}

DiskParameters::Piece DiskParameters::piece(FlatId flat, std::int64_t number) const noexcept {
  auto const trainable = pieces(flat).trainable;
  if (number >= trainable) {
    auto const begin = (number - trainable) * most_in_buffer_;
    return {false, {begin, std::min(begin + most_in_buffer_, frozen_held(flat))}};
  }
  auto const stored = slices_on_disk(layout_->flats()[flat], *request_);
  auto const of_slice = trainable / stored.slices;
  auto const slice = number / of_slice * stored.count;
  auto const begin = slice + number % of_slice * most_in_buffer_;
  return {true, {begin, std::min(begin + most_in_buffer_, slice + stored.count)}};
}

DiskParameters::Buffer& DiskParameters::buffer(std::int64_t number) noexcept {
  return buffers_[static_cast<std::size_t>(number % std::ssize(buffers_))];
}

void DiskParameters::read(FlatId flat, std::int64_t number) {
  auto& stream = states_.reads();
  auto const& to = buffer(read_++);
  auto const [trainable, elements] = piece(flat, number);
  auto const bytes = whole_blocks(elements.count() * bytes_of(request_->precision.compute));
  if (number == 0) {
    stream.wait(*written_[flat]);
  }
  stream.wait(*to.free);
  {
    device::SpanScope const span{stream, "read", layout_->flats()[flat].name};
    states_.storage().read(stream, states_.stored(flat, 0, first_of(flat, trainable) + elements.begin),
                           to.memory.first(static_cast<std::size_t>(bytes)));
  }
  stream.record(*to.ready);
  read_bytes_ += bytes;
  if (number + 1 == pieces(flat).all()) {
    stream.record(*arrived_[flat]);
  }
}

bool DiskParameters::read_more() {
  if (ahead_.empty()) {
    return true;
  }
  auto const all = pieces(ahead_.back()).all();
  for (; pieces_of_last_ < all && read_ - brought_ < std::ssize(buffers_); ++pieces_of_last_) {
    read(ahead_.back(), pieces_of_last_);
  }
  return pieces_of_last_ == all;
}

void DiskParameters::read_ahead(FlatId flat) {
  if (read_more() && read_ - brought_ < std::ssize(buffers_) && std::ranges::find(ahead_, flat) == ahead_.end()) {
    ahead_.push_back(flat);
    pieces_of_last_ = 0;
    read_more();
  }
}

void DiskParameters::bring(FlatId flat, device::Stream& stream, std::byte* trainable, std::byte* frozen) {
  if (ahead_.empty() || ahead_.front() != flat) {
    forget();
    read_ahead(flat);
  }
  auto const element_bytes = bytes_of(request_->precision.compute);
  for (std::int64_t number = 0; number < pieces(flat).all(); ++number) {
    read_more();
    auto const part = piece(flat, number);
    auto const& from = buffer(brought_++);
    stream.wait(*from.ready);
    device_->kernels().copy(stream, (part.trainable ? trainable : frozen) + part.elements.begin * element_bytes,
                            from.memory.data(), part.elements.count() * element_bytes);
    stream.record(*from.free);
  }
  ahead_.erase(ahead_.begin());
}

void DiskParameters::forget() noexcept {
  brought_ = read_;
  ahead_.clear();
}

void DiskParameters::await(FlatId flat) { waits_->wait(*arrived_[flat]); }

void DiskParameters::note_updated(FlatId flat) { states_.writes().record(*written_[flat]); }

DiskTraffic DiskParameters::traffic() const noexcept {
  auto traffic = states_.traffic();
  traffic.read_bytes += read_bytes_;
  return traffic;
}

}  // namespace zeroth::shard
