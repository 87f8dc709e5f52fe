// SPDX-License-Identifier: Apache-2.0
#include "shard/slices.hpp"

#include <array>

namespace zeroth::shard {

std::vector<OwnSlice> Slices::trainable(FlatId flat) const {
  auto const& part = memory_->flat(flat).trainable;
  if (part.padded_count == 0) {
    return {};
  }
  auto const at = memory_->addresses(flat);
  auto const& precision = memory_->request().precision;
  auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
  std::vector<OwnSlice> slices{{"master", at.master + before * bytes_of(precision.master), precision.master}};
  std::size_t next = 0;
  for (auto const& state : optim::states_of(memory_->request().update.rule)) {
    slices.push_back({state.name, at.states[next++] + before * bytes_of(precision.states), precision.states});
  }
  return slices;
}

std::vector<OwnSlice> Slices::frozen(FlatId flat) const {
  auto const& unit = memory_->flat(flat);
  if (unit.frozen.padded_count == 0) {
    return {};
  }
  auto const placement = memory_->request().placements.parameters;
  auto const dtype = memory_->request().precision.compute;
  auto const before = memory_->held(unit.trainable, placement).count() + unit.frozen.slice(memory_->place()).begin -
                      memory_->held(unit.frozen, placement).begin;
  return {{"frozen", memory_->addresses(flat).parameters + before * bytes_of(dtype), dtype}};
}

void Slices::spread() {
  auto& compute = memory_->compute();
  auto const& precision = memory_->request().precision;
  for (auto const flat : memory_->layout().flats().ids()) {
    if (auto const own = trainable(flat); !own.empty() && precision.has_master()) {
      auto const& part = memory_->flat(flat).trainable;
      auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
      auto* const copy = memory_->addresses(flat).updated_parameters + before * bytes_of(precision.compute);
      memory_->kernels().convert(compute, copy, precision.compute, own.front().data, precision.master,
                                 part.shard_count);
    }
  }
  compute.synchronize();
  for (auto const flat : memory_->layout().flats().ids()) {
    auto const& unit = memory_->flat(flat);
    auto const at = memory_->addresses(flat);
    auto const& placements = memory_->request().placements;
    gather(flat, at.parameters, unit.trainable, placements.parameters, precision.compute);
    auto const trainable = memory_->held(unit.trainable, placements.parameters).count();
    gather(flat, at.parameters + trainable * bytes_of(precision.compute), unit.frozen, placements.parameters,
           precision.compute);
    if (precision.has_master()) {
      gather(flat, at.master, unit.trainable, placements.optimizer, precision.master);
    }
    for (int k = 0; k < optim::state_count(memory_->request().update.rule); ++k) {
      gather(flat, at.states[static_cast<std::size_t>(k)], unit.trainable, placements.optimizer, precision.states);
    }
  }
  memory_->context().gather_stream->synchronize();
  memory_->context().reduce_stream->synchronize();
}

/// From all ranks' slices of `part` to what this one holds of it under `placement`, from `data` on.
void Slices::gather(FlatId flat, std::byte* data, Part const& part, Placement placement, Dtype dtype) {
  if (part.padded_count == 0 || placement == Placement::shard) {
    return;
  }
  auto const& context = memory_->context();
  bool const from_replicas = placement == Placement::group;
  auto const before = part.slice(memory_->place()).begin - memory_->held(part, placement).begin;
  std::array const transaction{comm::Collective{.operation = comm::Operation::all_gather,
                                                .input = data + before * bytes_of(dtype),
                                                .output = data,
                                                .count = part.shard_count,
                                                .dtype = dtype}};
  (from_replicas ? context.reduce : context.gather)
      .between(Placement::shard, placement)
      .submit(*(from_replicas ? context.reduce_stream : context.gather_stream), {"restore", memory_->flat(flat).name},
              transaction);
}

}  // namespace zeroth::shard
