// SPDX-License-Identifier: Apache-2.0
#include "shard/tile_queue.hpp"

#include <numeric>
#include <span>

#include "core/block_file.hpp"

namespace zeroth::shard {
namespace {

std::int64_t bytes_in(std::span<device::StoredPiece const> pieces) noexcept {
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0},
                         [](std::int64_t sum, auto const& piece) { return sum + std::ssize(piece.memory); });
}

}  // namespace

TileQueue::TileQueue(Parts const& parts)
    : parts_{parts}, updates_{parts.device->make_stream("compute", device::Overlap::off)} {
  auto& device = *parts.device;
  for (int i = 0; i < parts.plan->tiles_in_memory; ++i) {
    buffers_.push_back({parts.memory + i * parts.plan->copies * parts.plan->tile_bytes, device.make_event(),
                        device.make_event(), device.make_event(), device.make_event()});
  }
}

Tile const& TileQueue::tile(std::int64_t number) const noexcept {
  auto const& tiles = parts_.plan->tiles;
  return tiles[static_cast<std::size_t>(number % std::ssize(tiles))];
}

TileQueue::Buffer& TileQueue::buffer(std::int64_t number) noexcept {
  return buffers_[static_cast<std::size_t>(number % std::ssize(buffers_))];
}

std::int64_t TileQueue::bytes_of_slice(std::int64_t number, StoredState const& state) const noexcept {
  return whole_blocks(tile(number).elements.count() * state.element_bytes);
}

/// Each state of a tile, and each of its slices, which move side by side. Valid until the next call.
std::span<device::StoredPiece const> TileQueue::pieces(std::int64_t number, Of slices) {
  pieces_.clear();
  auto const& of = tile(number);
  auto const& unit = parts_.layout->flats()[of.flat];
  auto const& states = (*parts_.states)[of.flat];
  for (std::size_t k = 0; k < states.size(); ++k) {
    auto const& state = states[k];
    if (state.position < 0) {
      continue;
    }
    auto const bytes = bytes_of_slice(number, state);
    auto const end = slices == Of::all ? state.stored.slices : state.own_slice + 1;
    for (auto slice = slices == Of::all ? 0 : state.own_slice; slice < end; ++slice) {
      auto const before = slice * state.stored.stride + of.elements.begin - state.in_memory_count;
      pieces_.push_back(
          {device::Stored{state.position + before * state.element_bytes, state.name, unit.name},
           std::span{buffer(number).data + parts_.plan->in_tile[k] + slice * bytes, static_cast<std::size_t>(bytes)}});
    }
  }
  return pieces_;
}

void TileQueue::read(std::int64_t number) {
  auto& to = buffer(number);
  auto& stream = *parts_.reads;
  // Written there last was a tile of the update before, or a later one: there is never more memory than for all tiles.
  stream.wait(*to.free);
  if (parts_.plan->read_bytes > 0) {
    device::SpanScope const span{stream, "read", parts_.layout->flats()[tile(number).flat].name};
    auto const all = pieces(number, Of::own);
    parts_.storage->read(stream, all);
    traffic_.read_bytes += bytes_in(all);
  }
  stream.record(*to.ready);
}

std::array<std::byte*, most_updated> TileQueue::acquire() {
  for (auto const until = next_ + (parts_.reads_ahead ? std::ssize(buffers_) : 1); read_ < until; ++read_) {
    read(read_);
  }
  auto const& at = buffer(next_);
  updates_->wait(*at.ready);
  std::array<std::byte*, most_updated> states{};
  for (std::size_t k = 0; k < states.size(); ++k) {
    auto const& state = (*parts_.states)[tile(next_).flat][k];
    auto const before = parts_.plan->in_tile[k] + state.own_slice * bytes_of_slice(next_, state);
    states[k] = state.position < 0 ? nullptr : at.data + before;
  }
  return states;
}

void TileQueue::release() {
  auto& from = buffer(next_);
  auto& stream = *parts_.writes;
  parts_.device->compute().record(*from.updated);
  if (publish_) {
    publish_(tile(next_), from.data, bytes_of_slice(next_, (*parts_.states)[tile(next_).flat].front()), *from.updated,
             *from.published);
  }
  stream.wait(publish_ ? *from.published : *from.updated);
  {
    device::SpanScope const span{stream, "write", parts_.layout->flats()[tile(next_).flat].name};
    auto const all = pieces(next_, Of::all);
    parts_.storage->write(stream, all);
    traffic_.written_bytes += bytes_in(all);
  }
  stream.record(*from.free);
  ++next_;
  if (parts_.reads_ahead) {
    read(read_++);
  }
}

double TileQueue::held_up_ms() const {
  auto const of = [](device::Stream const& stream, bool beside) {
    return stream.host_ms() + (beside ? 0 : stream.waited_ms());
  };
  return of(*updates_, false) + of(*parts_.reads, parts_.reads_ahead) + of(*parts_.writes, parts_.writes_behind);
}

void TileQueue::forget() {
  parts_.reads->synchronize();
  read_ = next_;
}

}  // namespace zeroth::shard
