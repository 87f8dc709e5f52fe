// SPDX-License-Identifier: Apache-2.0
#include "shard/slices.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace zeroth::shard {

std::vector<OwnSlice> Slices::trainable(FlatId flat) const {
  auto const& part = memory_->flat(flat).trainable;
  if (part.padded_count == 0) {
    return {};
  }
  auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
  std::vector<OwnSlice> slices;
  auto const add = [&](std::string name) {
    slices.push_back({held_of_updated(*memory_, flat, slices.size()).part(before, part.shard_count), std::move(name)});
  };
  add("master");
  for (auto const& state : optim::states_of(memory_->update_of(flat))) {
    add(state.name);
  }
  return slices;
}

std::vector<OwnSlice> Slices::frozen(FlatId flat) const {
  auto const& part = memory_->flat(flat).frozen;
  if (part.padded_count == 0) {
    return {};
  }
  return {{held_of_parameters(*memory_, flat, false).part(before_own_slice(flat, part), part.shard_count), "frozen"}};
}

/// The number of elements before this rank's own slice in what it holds of a part's parameters.
std::int64_t Slices::before_own_slice(FlatId flat, Part const& part) const noexcept {
  return part.slice(memory_->place()).begin - memory_->held(part, memory_->parameters_of(flat)).begin;
}

/// Rounds to the compute copy of this rank's own slice.
void Slices::round_master(FlatId flat, HeldState const& master) {
  auto const& part = memory_->flat(flat).trainable;
  auto const copy = held_of_parameters(*memory_, flat, true).part(before_own_slice(flat, part), part.shard_count);
  master.look({0, part.shard_count}, [&](std::byte const* from, std::int64_t first, std::int64_t count) {
    copy.edit({first, first + count}, [&](std::byte* to, std::int64_t at, std::int64_t some) {
      round_parameters(*memory_, flat, true, to, from + at * bytes_of(master.dtype), master.dtype, some);
    });
  });
}

void Slices::spread() {
  auto const& request = memory_->request();
  for (auto const flat : memory_->layout().flats().ids()) {
    if (auto const own = trainable(flat); !own.empty() && memory_->precision(flat).has_master()) {
      round_master(flat, own.front());
    }
  }
  memory_->compute().synchronize();
  for (auto const flat : memory_->layout().flats().ids()) {
    auto const& unit = memory_->flat(flat);
    auto const placement = memory_->parameters_of(flat);
    gather(flat, unit.trainable, placement, held_of_parameters(*memory_, flat, true));
    gather(flat, unit.frozen, placement, held_of_parameters(*memory_, flat, false));
    auto const states = static_cast<std::size_t>(optim::state_count(memory_->update_of(flat)));
    for (std::size_t state = memory_->precision(flat).has_master() ? 0 : 1; state <= states; ++state) {
      gather(flat, unit.trainable, request.placements.optimizer, held_of_updated(*memory_, flat, state));
    }
  }
  memory_->context().gather_stream->synchronize();
  memory_->context().reduce_stream->synchronize();
}

/// Gathers this rank's elements of `part` under `placement`, from all ranks' slices into `held`.
void Slices::gather(FlatId flat, Part const& part, Placement placement, HeldState const& held) {
  if (part.padded_count == 0 || placement == Placement::shard) {
    return;
  }
  auto const own = memory_->held(part, placement);
  if (held.in_memory_count < own.count()) {
    return gather_by_pieces(flat, part, placement, held);
  }
  auto const before = part.slice(memory_->place()).begin - own.begin;
  std::array const transaction{comm::Collective{.operation = comm::Operation::all_gather,
                                                .input = held.data + before * bytes_of(held.dtype),
                                                .output = held.data,
                                                .count = part.shard_count,
                                                .dtype = held.dtype}};
  submit_gather(flat, placement, transaction);
}

/// If some elements are offloaded: in pieces that fit into a little memory, the same number of each rank's slice at a
/// time.
void Slices::gather_by_pieces(FlatId flat, Part const& part, Placement placement, HeldState const& held) {
  constexpr std::int64_t most_bytes = 4 << 20;
  auto const dtype = held.dtype;
  auto const bytes = bytes_of(dtype);
  auto const elements = memory_->held(part, placement);
  auto const ranks = elements.count() / part.shard_count;
  auto const own = part.slice(memory_->place()).begin - elements.begin;
  auto const most =
      std::clamp(most_bytes / (ranks * bytes) / alignment_count * alignment_count, alignment_count, part.shard_count);
  auto const piece = memory_->context().device->allocate_host((1 + ranks) * most * bytes);
  auto* const gathered = piece->data() + most * bytes;
  auto& compute = memory_->compute();
  auto const copy = [&](std::byte* to, std::byte const* from, std::int64_t some_bytes) {
    memory_->kernels().copy(compute, to, from, some_bytes);
  };
  for (std::int64_t first = 0; first < part.shard_count; first += most) {
    auto const count = std::min(most, part.shard_count - first);
    held.look({own + first, own + first + count}, [&](std::byte const* from, std::int64_t at, std::int64_t some) {
      copy(piece->data() + at * bytes, from, some * bytes);
    });
    compute.synchronize();
    std::array const transaction{comm::Collective{.operation = comm::Operation::all_gather,
                                                  .input = piece->data(),
                                                  .output = gathered,
                                                  .count = count,
                                                  .dtype = dtype}};
    submit_gather(flat, placement, transaction);
    memory_->context().gather_stream->synchronize();
    memory_->context().reduce_stream->synchronize();
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      auto const begin = rank * part.shard_count + first;
      auto const* const from = gathered + rank * count * bytes;
      held.edit({begin, begin + count},
                [&](std::byte* to, std::int64_t at, std::int64_t some) { copy(to, from + at * bytes, some * bytes); });
      compute.synchronize();
    }
  }
}

/// Gathers from slices to what is held under `placement`.
void Slices::submit_gather(FlatId flat, Placement placement, std::span<comm::Collective const> transaction) {
  auto const& unit = memory_->flat(flat);
  auto const [lane, hops] = route_of_gather(unit.trainable, Placement::shard, placement, memory_->request().places, 0);
  memory_->ranks(lane).over(hops.front().axes)->submit(memory_->stream(lane), {"restore", unit.name}, transaction);
}

}  // namespace zeroth::shard
