// SPDX-License-Identifier: Apache-2.0
#include "shard/disk_parameters.hpp"

#include <algorithm>
#include <utility>

#include "core/block_file.hpp"
#include "device/kernels.hpp"

namespace zeroth::shard {
namespace {

/// Each flat unit's is one array, in which what is frozen begins with a whole block.
ById<FlatId, StoredStates> stored_parameters(MemoryPlan const& plan, PlanRequest const& request) {
  ById<FlatId, StoredStates> all;
  for (auto const& at : plan.flats) {
    StoredStates states;
    if (at.parameters_on_disk >= 0) {
      states.front() = {at.parameters_on_disk, 0, bytes_of(request.precision.compute), "parameters"};
    }
    all.push_back(std::move(states));
  }
  return all;
}

}  // namespace

DiskParameters::DiskParameters(device::Device& device, Layout const& layout, MemoryPlan const& plan,
                               PlanRequest const& request)
    : device_{&device},
      layout_{&layout},
      plan_{&plan},
      request_{&request},
      states_{device, layout, plan.parameters_disk, request.offload_parameters.disk, stored_parameters(plan, request)},
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
std::int64_t DiskParameters::held(FlatId flat, bool trainable) const noexcept {
  auto const& unit = layout_->flats()[flat];
  return shard::held(trainable ? unit.trainable : unit.frozen, request_->placements.parameters, request_->places, 0)
      .count();
}

std::int64_t DiskParameters::first_of(FlatId flat, bool trainable) const noexcept {
  return trainable ? 0 : frozen_on_disk(layout_->flats()[flat], *request_);
}

DiskParameters::Pieces DiskParameters::pieces(FlatId flat) const noexcept {
  auto const count = [&](bool trainable) { return (held(flat, trainable) + most_in_buffer_ - 1) / most_in_buffer_; };
  return {count(true), count(false)};
}

DiskParameters::Piece DiskParameters::piece(FlatId flat, std::int64_t number) const noexcept {
  auto const trainable = pieces(flat).trainable;
  bool const of_trainable = number < trainable;
  auto const begin = (of_trainable ? number : number - trainable) * most_in_buffer_;
  return {of_trainable, {begin, std::min(begin + most_in_buffer_, held(flat, of_trainable))}};
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
