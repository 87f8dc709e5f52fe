// SPDX-License-Identifier: Apache-2.0
#include "shard/slices.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace zeroth::shard {

/// Of a state whose elements that are in memory begin at `data`.
OwnSlice Slices::own(FlatId flat, std::size_t state, std::string name, std::byte* data, Dtype dtype) const {
  auto const& part = memory_->flat(flat).trainable;
  auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
  auto const in_memory = memory_->in_memory_count(flat);
  bool const has_some = before < in_memory;
  return {.name = std::move(name),
          .data = has_some ? data + before * bytes_of(dtype) : nullptr,
          .dtype = dtype,
          .in_memory_count = has_some ? std::min(in_memory - before, part.shard_count) : 0,
          .rest = {flat, state, has_some ? 0 : before - in_memory}};
}

std::vector<OwnSlice> Slices::trainable(FlatId flat) const {
  if (memory_->flat(flat).trainable.padded_count == 0) {
    return {};
  }
  auto const at = memory_->addresses(flat);
  auto const& precision = memory_->request().precision;
  std::vector<OwnSlice> slices{own(flat, 0, "master", at.master, precision.master)};
  if (!precision.has_master()) {  // it is among the parameters, and these are in memory
    auto const& part = memory_->flat(flat).trainable;
    auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
    slices.front().data = at.master + before * bytes_of(precision.master);
    slices.front().in_memory_count = part.shard_count;
  }
  std::size_t next = 0;
  for (auto const& state : optim::states_of(memory_->request().update.rule)) {
    slices.push_back(own(flat, 1 + next, state.name, at.states[next], precision.states));
    ++next;
  }
  return slices;
}

std::vector<OwnSlice> Slices::frozen(FlatId flat) const {
  auto const& unit = memory_->flat(flat);
  if (unit.frozen.padded_count == 0) {
    return {};
  }
  auto const placement = memory_->parameters_of(flat);
  auto const dtype = memory_->request().precision.compute;
  auto const before = memory_->held(unit.trainable, placement).count() + unit.frozen.slice(memory_->place()).begin -
                      memory_->held(unit.frozen, placement).begin;
  return {{.name = "frozen",
           .data = memory_->addresses(flat).parameters + before * bytes_of(dtype),
           .dtype = dtype,
           .in_memory_count = unit.frozen.shard_count,
           .rest = {}}};
}

/// To the compute copy of this rank's own slice.
void Slices::round_master(FlatId flat, OwnSlice const& master) {
  auto const& precision = memory_->request().precision;
  auto const& part = memory_->flat(flat).trainable;
  auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
  auto* const copy = memory_->addresses(flat).updated_parameters + before * bytes_of(precision.compute);
  auto const round = [&](std::byte const* from, std::int64_t first, std::int64_t count) {
    memory_->kernels().convert(memory_->compute(), copy + first * bytes_of(precision.compute), precision.compute, from,
                               precision.master, count);
  };
  if (master.in_memory_count > 0) {
    round(master.data, 0, master.in_memory_count);
  }
  if (auto const count = part.shard_count - master.in_memory_count; count > 0) {
    auto const& [of, state, first] = master.rest;
    memory_->disk()->look(of, state, {first, first + count},
                          [&](std::byte const* from, std::int64_t at, std::int64_t some) {
                            round(from, master.in_memory_count + at, some);
                            memory_->compute().synchronize();
                          });
  }
}

void Slices::spread() {
  auto const& precision = memory_->request().precision;
  for (auto const flat : memory_->layout().flats().ids()) {
    if (auto const own = trainable(flat); !own.empty() && precision.has_master()) {
      round_master(flat, own.front());
    }
  }
  memory_->compute().synchronize();
  for (auto const flat : memory_->layout().flats().ids()) {
    auto const& unit = memory_->flat(flat);
    auto const at = memory_->addresses(flat);
    auto const placement = memory_->parameters_of(flat);
    gather(flat, at.parameters, unit.trainable, placement, precision.compute);
    auto const trainable = memory_->held(unit.trainable, placement).count();
    gather(flat, at.parameters + trainable * bytes_of(precision.compute), unit.frozen, placement, precision.compute);
    if (precision.has_master()) {
      gather_updated(flat, 0, at.master, precision.master);
    }
    for (std::size_t k = 0; k < static_cast<std::size_t>(optim::state_count(memory_->request().update.rule)); ++k) {
      gather_updated(flat, 1 + k, at.states[k], precision.states);
    }
  }
  memory_->context().gather_stream->synchronize();
  memory_->context().reduce_stream->synchronize();
}

/// Of what updates change, whose elements in memory begin at `data`. Where some are on the disk, by pieces that fit
/// into a little memory, as many of each rank's slice at once.
void Slices::gather_updated(FlatId flat, std::size_t state, std::byte* data, Dtype dtype) {
  auto const& part = memory_->flat(flat).trainable;
  auto const placement = memory_->request().placements.optimizer;
  if (memory_->disk() == nullptr || memory_->in_memory_count(flat) == memory_->optimized(flat).count()) {
    return gather(flat, data, part, placement, dtype);
  }
  if (part.padded_count == 0 || placement == Placement::shard) {
    return;
  }
  constexpr std::int64_t most_bytes = 4 << 20;
  auto const held = memory_->optimized(flat);
  auto const ranks = held.count() / part.shard_count;
  auto const own = part.slice(memory_->place()).begin - held.begin;
  auto const most = std::clamp(most_bytes / (ranks * bytes_of(dtype)) / alignment_count * alignment_count,
                               alignment_count, part.shard_count);
  auto const piece = memory_->context().device->allocate_host((1 + ranks) * most * bytes_of(dtype));
  auto* const gathered = piece->data() + most * bytes_of(dtype);
  for (std::int64_t first = 0; first < part.shard_count; first += most) {
    auto const count = std::min(most, part.shard_count - first);
    move(flat, state, data, {own + first, own + first + count}, piece->data(), dtype, Way::read);
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
      move(flat, state, data, {begin, begin + count}, gathered + rank * count * bytes_of(dtype), dtype, Way::write);
    }
  }
}

/// Elements of a state, counted from the first that the optimizer holds, between where they are and `piece`.
void Slices::move(FlatId flat, std::size_t state, std::byte* data, Range elements, std::byte* piece, Dtype dtype,
                  Way way) {
  auto const in_memory = memory_->in_memory_count(flat);
  auto const bytes = bytes_of(dtype);
  auto const copy = [&](std::byte* held, std::byte* at, std::int64_t count) {
    way == Way::read ? memory_->kernels().copy(memory_->compute(), at, held, count * bytes)
                     : memory_->kernels().copy(memory_->compute(), held, at, count * bytes);
    memory_->compute().synchronize();
  };
  auto const split = std::clamp(in_memory, elements.begin, elements.end);
  if (elements.begin < split) {
    copy(data + elements.begin * bytes, piece, split - elements.begin);
  }
  if (split < elements.end) {
    auto* const rest = piece + (split - elements.begin) * bytes;
    Range const on_disk{split - in_memory, elements.end - in_memory};
    auto const use = [&](std::byte* held, std::int64_t first, std::int64_t count) {
      copy(held, rest + first * bytes, count);
    };
    way == Way::read ? memory_->disk()->look(flat, state, on_disk, use)
                     : memory_->disk()->edit(flat, state, on_disk, use);
  }
}

/// From all ranks' slices of `part` to what this one holds of it under `placement`, from `data` on.
void Slices::gather(FlatId flat, std::byte* data, Part const& part, Placement placement, Dtype dtype) {
  if (part.padded_count == 0 || placement == Placement::shard) {
    return;
  }
  auto const before = part.slice(memory_->place()).begin - memory_->held(part, placement).begin;
  std::array const transaction{comm::Collective{.operation = comm::Operation::all_gather,
                                                .input = data + before * bytes_of(dtype),
                                                .output = data,
                                                .count = part.shard_count,
                                                .dtype = dtype}};
  submit_gather(flat, placement, transaction);
}

/// From slices to what is held under `placement`.
void Slices::submit_gather(FlatId flat, Placement placement, std::span<comm::Collective const> transaction) {
  auto const& context = memory_->context();
  bool const from_replicas = placement == Placement::group;
  (from_replicas ? context.reduce : context.gather)
      .between(Placement::shard, placement)
      .submit(*(from_replicas ? context.reduce_stream : context.gather_stream), {"restore", memory_->flat(flat).name},
              transaction);
}

}  // namespace zeroth::shard
