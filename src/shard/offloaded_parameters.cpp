// SPDX-License-Identifier: Apache-2.0
#include "shard/offloaded_parameters.hpp"

#include <algorithm>
#include <utility>

#include "core/block_file.hpp"
#include "device/kernels.hpp"

namespace zeroth::shard {
namespace {

/// Each flat unit's parameters are one array. Every slice, and the frozen part, begins at a whole block.
ById<FlatId, StoredStates> stored_parameters(Layout const& layout, MemoryPlan const& plan, PlanRequest const& request,
                                             int place) {
  ById<FlatId, StoredStates> all;
  for (auto const flat : plan.flats.ids()) {
    StoredStates states;
    if (auto const at = plan.flats[flat].parameters_on_disk; at >= 0) {
      auto const stored = slices_on_disk(layout.flats()[flat], request);
      states.front() = {at,           0,      bytes_of(precision_of(layout.flats()[flat], request.settings).compute),
                        "parameters", stored, stored.slices > 1 ? place - request.places.first_replica(place) : 0};
    }
    all.push_back(std::move(states));
  }
  return all;
}

}  // namespace

OffloadedParameters::OffloadedParameters(device::Device& device, Layout const& layout, MemoryPlan const& plan,
                                         PlanRequest const& request, int place, std::function<void()> check)
    : SwappedStates{{.device = &device,
                     .layout = &layout,
                     .plan = &plan.parameters_disk,
                     .offload = &request.offload_parameters.disk,
                     .states = stored_parameters(layout, plan, request, place),
                     .check = std::move(check),
                     .section = "offload_param",
                     .reads = "read shards",
                     .writes = "write shards"}},
      plan_{&plan},
      request_{&request},
      gathers_{device, plan.parameters_disk.gather_buffers},
      gather_waits_{device.make_stream("compute", device::Overlap::off)} {
  for (auto const flat : layout.flats().ids()) {
    pieces_.push_back(has(flat) ? cut(flat) : std::vector<Piece>{});
    written_.push_back(has(flat) ? device.make_event() : nullptr);
    arrived_.push_back(has(flat) ? device.make_event() : nullptr);
  }
  ahead_.reserve(layout.flats().size());
}

OnDisk OffloadedParameters::offloaded(FlatId flat, bool trainable) noexcept {
  return has(flat) ? OnDisk{this, flat, 0, trainable ? 0 : frozen_on_disk(unit(flat), *request_)} : OnDisk{};
}

std::byte* OffloadedParameters::gather_buffer(std::int64_t piece) const noexcept {
  return window_memory(DiskPlan::windows).data() + gathers_.buffer(piece) * plan_->parameters_disk.tile_bytes;
}

/// The pieces of each slice, then of the frozen part.
std::vector<OffloadedParameters::Piece> OffloadedParameters::cut(FlatId flat) const {
  auto const most = plan_->parameters_disk.tile_bytes / bytes_of(precision(flat).compute);
  auto const stored = slices_on_disk(unit(flat), *request_);
  std::vector<Piece> pieces;
  auto const add = [&](bool trainable, std::int64_t first, std::int64_t end) {
    for (; first < end; first += most) {
      pieces.push_back({trainable, {first, std::min(first + most, end)}});
    }
  };
  for (int slice = 0; slice < stored.slices; ++slice) {
    add(true, slice * stored.count, (slice + 1) * stored.count);
  }
  add(false, 0, held(unit(flat).frozen, request_->placements.parameters, request_->places, 0).count());
  return pieces;
}

void OffloadedParameters::read_piece(FlatId flat, std::size_t number) {
  auto const& [trainable, elements] = pieces_[flat][number];
  auto const bytes = whole_blocks(elements.count() * bytes_of(precision(flat).compute));
  close_window();
  if (number == 0) {
    reads().wait(*written_[flat]);
  }
  device::StoredPiece const from{stored(flat, 0, offloaded(flat, trainable).first + elements.begin),
                                 {gather_buffer(gathers_.filled()), static_cast<std::size_t>(bytes)}};
  gathers_.fill(reads(), [&] { read(unit(flat).name, {&from, 1}); });
  if (number + 1 == pieces_[flat].size()) {
    reads().record(*arrived_[flat]);
  }
}

bool OffloadedParameters::read_more() {
  if (ahead_.empty()) {
    return true;
  }
  auto const all = pieces_[ahead_.back()].size();
  for (; pieces_of_last_ < all && gathers_.has_room(); ++pieces_of_last_) {
    read_piece(ahead_.back(), pieces_of_last_);
  }
  return pieces_of_last_ == all;
}

void OffloadedParameters::read_ahead(FlatId flat) {
  if (read_more() && gathers_.has_room() && std::ranges::find(ahead_, flat) == ahead_.end()) {
    ahead_.push_back(flat);
    pieces_of_last_ = 0;
    read_more();
  }
}

void OffloadedParameters::bring(FlatId flat, device::Stream& stream, std::byte* trainable, std::byte* frozen) {
  if (ahead_.empty() || ahead_.front() != flat) {
    drop();
    read_ahead(flat);
  }
  auto const element_bytes = bytes_of(precision(flat).compute);
  for (auto const& [is_trainable, elements] : pieces_[flat]) {
    read_more();
    gathers_.acquire(stream);
    SwappedStates::device().kernels().copy(stream, (is_trainable ? trainable : frozen) + elements.begin * element_bytes,
                                           gather_buffer(gathers_.released()), elements.count() * element_bytes);
    gathers_.release(stream);
  }
  ahead_.erase(ahead_.begin());
}

void OffloadedParameters::drop() {
  gathers_.forget();
  ahead_.clear();
}

void OffloadedParameters::await(FlatId flat) { gather_waits_->wait(*arrived_[flat]); }

/// If parameters are the masters, they come from the disk. Otherwise they are rounded again.
void OffloadedParameters::acquire(optim::UpdateArgs& args) {
  rounded_ = acquire_tile().front();
  args.master = precision(acquired()).has_master() ? args.master : rounded_;
}

/// Rounds, whether or not the update was skipped.
void OffloadedParameters::round(optim::UpdateArgs const& args) {
  if (auto const of_tile = precision(acquired()); of_tile.has_master()) {
    auto& of_device = SwappedStates::device();
    of_device.kernels().convert(of_device.compute(), rounded_, of_tile.compute, args.master, args.master_dtype,
                                args.count);
    if (request_->settings.gather_codec != Codec::none) {
      of_device.kernels().quantise(of_device.compute(), {rounded_, of_tile.compute, args.count});
    }
  }
}

double OffloadedParameters::held_up_ms() const {
  return SwappedStates::held_up_ms() + gather_waits_->host_ms() + gather_waits_->waited_ms();
}

}  // namespace zeroth::shard
