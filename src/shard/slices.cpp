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
  auto const place = memory_->place();
  auto const dtype = memory_->request().precision.compute;
  auto const before = held(unit.trainable, placement, place).count() + unit.frozen.slice(place).begin -
                      held(unit.frozen, placement, place).begin;
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
    if (memory_->parameters_whole()) {
      gather(flat, at.parameters, unit.trainable, precision.compute);
      gather(flat, at.parameters + unit.trainable.padded_count * bytes_of(precision.compute), unit.frozen,
             precision.compute);
    }
    if (memory_->optimizer_whole()) {
      if (precision.has_master()) {
        gather(flat, at.master, unit.trainable, precision.master);
      }
      for (int k = 0; k < optim::state_count(memory_->request().update.rule); ++k) {
        gather(flat, at.states[static_cast<std::size_t>(k)], unit.trainable, precision.states);
      }
    }
  }
  memory_->context().gather_stream->synchronize();
}

void Slices::gather(FlatId flat, std::byte* whole, Part const& part, Dtype dtype) {
  if (part.padded_count == 0) {
    return;
  }
  auto const& context = memory_->context();
  std::array const transaction{comm::Collective{.operation = comm::Operation::all_gather,
                                                .input = whole + part.slice(memory_->place()).begin * bytes_of(dtype),
                                                .output = whole,
                                                .count = part.shard_count,
                                                .dtype = dtype}};
  context.gather.all->submit(*context.gather_stream, {"restore", memory_->flat(flat).name}, transaction);
}

}  // namespace zeroth::shard
