// SPDX-License-Identifier: Apache-2.0
#include "shard/swapped_states.hpp"

#include <algorithm>
#include <utility>

#include "core/block_file.hpp"

namespace zeroth::shard {

SwappedStates::SwappedStates(Parts parts)
    : OffloadedStates{std::move(parts)}, published_{OffloadedStates::device().make_event()} {}

std::byte* SwappedStates::tile_memory(std::int64_t number) noexcept {
  return memory() + queue().buffer(number) * plan().copies * plan().tile_bytes;
}

std::int64_t SwappedStates::bytes_of_slice(std::int64_t number, StoredState const& state) const noexcept {
  return whole_blocks(tile(number).elements.count() * state.element_bytes);
}

/// Each state of a tile, and each of its slices. They are transferred concurrently. Valid until the next call.
std::span<device::StoredPiece const> SwappedStates::pieces(std::int64_t number, Of slices) {
  pieces_.clear();
  auto const& of = tile(number);
  auto const& states = this->states(of.flat);
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
          {device::Stored{state.position + before * state.element_bytes, state.name, unit(of.flat).name},
           std::span{tile_memory(number) + plan().in_tile[k] + slice * bytes, static_cast<std::size_t>(bytes)}});
    }
  }
  return pieces_;
}

/// The last write to this memory was a tile of the previous update, or a later one: there is never memory for more than
/// all tiles.
void SwappedStates::read_next() {
  queue().fill(reads(), [&] {
    if (auto const number = queue().filled(); plan().read_bytes > 0) {
      read(unit(tile(number).flat).name, pieces(number, Of::own));
    }
  });
}

std::array<std::byte*, most_updated> SwappedStates::acquire_tile() {
  close_window();
  auto const number = queue().released();
  while (queue().filled() < number + (offload().reads_ahead ? queue().size() : 1)) {
    read_next();
  }
  queue().acquire(waits());
  std::array<std::byte*, most_updated> at{};
  for (std::size_t k = 0; k < at.size(); ++k) {
    auto const& state = states(tile(number).flat)[k];
    auto const before = plan().in_tile[k] + state.own_slice * bytes_of_slice(number, state);
    at[k] = state.position < 0 ? nullptr : tile_memory(number) + before;
  }
  return at;
}

void SwappedStates::acquire(optim::UpdateArgs& args) {
  auto const at = acquire_tile();
  if (at.front() != nullptr) {
    args.master = at.front();
  }
  std::array<std::byte*, optim::most_kept_states> states{};
  std::copy(at.begin() + 1, at.end(), states.begin());
  set_states(states, args);
}

void SwappedStates::release() {
  auto const number = queue().released();
  auto const& of = tile(number);
  queue().release(device().compute(), writes(), [&](device::Event& updated) {
    if (publish_) {
      publish_(of, tile_memory(number), bytes_of_slice(number, states(of.flat).front()), updated, *published_);
      writes().wait(*published_);
    }
    write(unit(of.flat).name, pieces(number, Of::all));
  });
  if (offload().reads_ahead) {
    read_next();
  }
}

}  // namespace zeroth::shard
