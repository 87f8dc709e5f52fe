// SPDX-License-Identifier: Apache-2.0
#include "shard/slices.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace zeroth::shard {
namespace {

/// `count` elements from `first` on, of what `held` says where it is.
OwnSlice part_of(OwnSlice held, std::int64_t first, std::int64_t count) noexcept {
  auto const in_memory = held.in_memory_count;
  held.data = first < in_memory ? held.data + first * bytes_of(held.dtype) : nullptr;
  held.in_memory_count = std::clamp(in_memory - first, std::int64_t{0}, count);
  held.rest.first += std::max(first - in_memory, std::int64_t{0});
  return held;
}

}  // namespace

/// What this rank holds of a state that updates change, counted as most_updated does.
OwnSlice Slices::updated(FlatId flat, std::size_t state, std::string name) const {
  auto const& precision = memory_->request().precision;
  if (state == 0 && !precision.has_master()) {  // it is among the parameters, of which the optimizer has some
    auto const& part = memory_->flat(flat).trainable;
    auto const optimized = memory_->optimized(flat);
    auto const before = optimized.begin - memory_->held(part, memory_->parameters_of(flat)).begin;
    return part_of(parameters(flat, true, std::move(name)), before, optimized.count());
  }
  auto const at = memory_->addresses(flat);
  return {.name = std::move(name),
          .data = state == 0 ? at.master : at.states[state - 1],
          .dtype = state == 0 ? precision.master : precision.states,
          .in_memory_count = memory_->in_memory_count(flat),
          .rest = {memory_->disk(), flat, state, 0}};
}

/// What this rank holds of the compute copy of a part.
OwnSlice Slices::parameters(FlatId flat, bool trainable, std::string name) const {
  auto const& unit = memory_->flat(flat);
  auto const placement = memory_->parameters_of(flat);
  auto const dtype = memory_->request().precision.compute;
  auto const of_trainable = memory_->held(unit.trainable, placement).count();
  OwnSlice held{.name = std::move(name), .dtype = dtype, .rest = {}};
  if (auto* const disk = memory_->disk_of(flat)) {
    held.rest = {&disk->states(), flat, 0, disk->first_of(flat, trainable)};
  } else {
    held.data = memory_->addresses(flat).parameters + (trainable ? 0 : of_trainable * bytes_of(dtype));
    held.in_memory_count = trainable ? of_trainable : memory_->held(unit.frozen, placement).count();
  }
  return held;
}

std::vector<OwnSlice> Slices::trainable(FlatId flat) const {
  auto const& part = memory_->flat(flat).trainable;
  if (part.padded_count == 0) {
    return {};
  }
  auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
  std::vector<OwnSlice> slices{part_of(updated(flat, 0, "master"), before, part.shard_count)};
  for (auto const& state : optim::states_of(memory_->request().update.rule)) {
    slices.push_back(part_of(updated(flat, slices.size(), state.name), before, part.shard_count));
  }
  return slices;
}

std::vector<OwnSlice> Slices::frozen(FlatId flat) const {
  auto const& part = memory_->flat(flat).frozen;
  if (part.padded_count == 0) {
    return {};
  }
  auto const before = part.slice(memory_->place()).begin - memory_->held(part, memory_->parameters_of(flat)).begin;
  return {part_of(parameters(flat, false, "frozen"), before, part.shard_count)};
}

/// To the compute copy of this rank's own slice.
void Slices::round_master(FlatId flat, OwnSlice const& master) {
  auto& compute = memory_->compute();
  auto const& part = memory_->flat(flat).trainable;
  auto const before = part.slice(memory_->place()).begin - memory_->held(part, memory_->parameters_of(flat)).begin;
  auto const copy = part_of(parameters(flat, true, {}), before, part.shard_count);
  auto const convert = [&](std::byte* to, std::byte const* from, std::int64_t count) {
    memory_->kernels().convert(compute, to, copy.dtype, from, master.dtype, count);
  };
  auto const round = [&](std::byte const* from, std::int64_t first, std::int64_t count) {
    if (copy.in_memory_count > 0) {
      return convert(copy.data + first * bytes_of(copy.dtype), from, count);
    }
    auto const& [disk, of, state, begin] = copy.rest;
    disk->edit(of, state, {begin + first, begin + first + count},
               [&](std::byte* to, std::int64_t at, std::int64_t some) {
                 convert(to, from + at * bytes_of(master.dtype), some);
                 compute.synchronize();
               });
  };
  if (master.in_memory_count > 0) {
    round(master.data, 0, master.in_memory_count);
  }
  if (auto const count = part.shard_count - master.in_memory_count; count > 0) {
    auto const& [disk, of, state, first] = master.rest;
    disk->look(of, state, {first, first + count}, [&](std::byte const* from, std::int64_t at, std::int64_t some) {
      round(from, master.in_memory_count + at, some);
      compute.synchronize();
    });
  }
}

void Slices::spread() {
  auto const& request = memory_->request();
  bool const has_master = request.precision.has_master();
  for (auto const flat : memory_->layout().flats().ids()) {
    if (auto const own = trainable(flat); !own.empty() && has_master) {
      round_master(flat, own.front());
    }
  }
  memory_->compute().synchronize();
  auto const states = static_cast<std::size_t>(optim::state_count(request.update.rule));
  for (auto const flat : memory_->layout().flats().ids()) {
    auto const& unit = memory_->flat(flat);
    auto const placement = memory_->parameters_of(flat);
    gather(flat, unit.trainable, placement, parameters(flat, true, {}));
    gather(flat, unit.frozen, placement, parameters(flat, false, {}));
    for (std::size_t state = has_master ? 0 : 1; state <= states; ++state) {
      gather(flat, unit.trainable, request.placements.optimizer, updated(flat, state, {}));
    }
  }
  memory_->context().gather_stream->synchronize();
  memory_->context().reduce_stream->synchronize();
}

/// From all ranks' slices of `part` to what this one holds of it under `placement`, which is where `held` says.
void Slices::gather(FlatId flat, Part const& part, Placement placement, OwnSlice const& held) {
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

/// Where some are on a disk: by pieces that fit into a little memory, as many of each rank's slice at once.
void Slices::gather_by_pieces(FlatId flat, Part const& part, Placement placement, OwnSlice const& held) {
  constexpr std::int64_t most_bytes = 4 << 20;
  auto const dtype = held.dtype;
  auto const elements = memory_->held(part, placement);
  auto const ranks = elements.count() / part.shard_count;
  auto const own = part.slice(memory_->place()).begin - elements.begin;
  auto const most = std::clamp(most_bytes / (ranks * bytes_of(dtype)) / alignment_count * alignment_count,
                               alignment_count, part.shard_count);
  auto const piece = memory_->context().device->allocate_host((1 + ranks) * most * bytes_of(dtype));
  auto* const gathered = piece->data() + most * bytes_of(dtype);
  for (std::int64_t first = 0; first < part.shard_count; first += most) {
    auto const count = std::min(most, part.shard_count - first);
    move(held, {own + first, own + first + count}, piece->data(), Way::read);
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
      move(held, {begin, begin + count}, gathered + rank * count * bytes_of(dtype), Way::write);
    }
  }
}

/// Elements of `held` between where they are and `piece`.
void Slices::move(OwnSlice const& held, Range elements, std::byte* piece, Way way) {
  auto const bytes = bytes_of(held.dtype);
  auto const copy = [&](std::byte* at_rest, std::byte* at, std::int64_t count) {
    way == Way::read ? memory_->kernels().copy(memory_->compute(), at, at_rest, count * bytes)
                     : memory_->kernels().copy(memory_->compute(), at_rest, at, count * bytes);
    memory_->compute().synchronize();
  };
  auto const split = std::clamp(held.in_memory_count, elements.begin, elements.end);
  if (elements.begin < split) {
    copy(held.data + elements.begin * bytes, piece, split - elements.begin);
  }
  if (split < elements.end) {
    auto* const rest = piece + (split - elements.begin) * bytes;
    auto const& [disk, flat, state, first] = held.rest;
    Range const on_disk{first + split - held.in_memory_count, first + elements.end - held.in_memory_count};
    auto const use = [&](std::byte* at_rest, std::int64_t done, std::int64_t count) {
      copy(at_rest, rest + done * bytes, count);
    };
    way == Way::read ? disk->look(flat, state, on_disk, use) : disk->edit(flat, state, on_disk, use);
  }
}

/// From slices to what is held under `placement`.
void Slices::submit_gather(FlatId flat, Placement placement, std::span<comm::Collective const> transaction) {
  auto const& unit = memory_->flat(flat);
  auto const [lane, hops] = route_of_gather(unit.trainable, Placement::shard, placement, memory_->request().places, 0);
  memory_->ranks(lane).over(hops.front().axes)->submit(memory_->stream(lane), {"restore", unit.name}, transaction);
}

}  // namespace zeroth::shard
