// SPDX-License-Identifier: Apache-2.0
#include "shard/memory.hpp"

#include <algorithm>

namespace zeroth::shard {

using device::Category;

ById<FlatId, std::unique_ptr<device::Event>> events_by_flat(ManagerContext const& context) {
  ById<FlatId, std::unique_ptr<device::Event>> events(context.layout->flats().size());
  std::ranges::generate(events, [&] { return context.device->make_event(); });
  return events;
}

Memory::Memory(ManagerContext const& context, PlanRequest const& request)
    : context_{context},
      request_{request},
      plan_{plan_memory(*context.layout, request)},
      parameters_{context.device->allocate(Category::parameters, plan_.bytes.parameters)},
      gradients_{context.device->allocate(Category::gradients, plan_.bytes.gradients)},
      optimizer_{context.device->allocate(Category::optimizer, plan_.bytes.optimizer)},
      slots_{context.device->allocate(Category::slots, plan_.bytes.slots)},
      scratch_{context.device->allocate(Category::scratch, plan_.bytes.scratch)},
      updated_{events_by_flat(context)} {
  auto& gather = *context.gather.group;
  auto& reduce = *context.reduce.all;
  registrations_.push_back(gather.register_memory(*parameters_));
  registrations_.push_back(gather.register_memory(*slots_));
  if (&reduce != &gather) {
    registrations_.push_back(reduce.register_memory(*slots_));
  }
  registrations_.push_back(reduce.register_memory(*gradients_));
  reduce.set_staging({scratch_->data() + plan_.comm_staging, static_cast<std::size_t>(plan_.comm_staging_bytes)});
}

Memory::Addresses Memory::addresses(FlatId flat) const noexcept {
  auto const& at = plan_.flats[flat];
  auto const& precision = request_.precision;
  // Where the optimizer's elements begin in memory that holds the whole.
  auto const own = optimized(flat).begin;
  auto const own_parameters = parameters_whole() ? own * bytes_of(precision.compute) : 0;
  Addresses result{};
  result.parameters = parameters_->data() + at.parameters;
  result.gradient = at.gradient < 0 ? nullptr : gradients_->data() + at.gradient;
  result.master = at.master < 0 ? result.parameters + own_parameters : optimizer_->data() + at.master;
  for (std::size_t k = 0; k < at.states.size(); ++k) {
    result.states[k] = at.states[k] < 0 ? nullptr : optimizer_->data() + at.states[k];
  }
  result.sums = at.sums < 0 ? nullptr : gradients_->data() + at.sums;
  bool const in_place = at.reduced < 0 && at.sums < 0;
  result.reduced_dtype = in_place ? precision.gradient : precision.accumulate;
  result.reduced = in_place       ? result.gradient + own * bytes_of(precision.gradient)
                   : at.sums >= 0 ? result.sums + own * bytes_of(Dtype::fp32)
                                  : gradients_->data() + at.reduced;
  result.updated_parameters = at.master < 0 ? nullptr : result.parameters + own_parameters;
  result.block_sums = reinterpret_cast<float*>(scratch_->data() + plan_.block_sums) + at.block_sums;
  result.lent_parameters = at.lent_parameters < 0 ? nullptr : scratch_->data() + at.lent_parameters;
  result.lent_gradient = at.lent_gradient < 0 ? nullptr : scratch_->data() + at.lent_gradient;
  return result;
}

std::byte* Memory::conversion() const noexcept {
  return plan_.conversion < 0 ? nullptr : scratch_->data() + plan_.conversion;
}

std::span<float const> Memory::block_sums() const noexcept {
  return {reinterpret_cast<float const*>(scratch_->data() + plan_.block_sums),
          static_cast<std::size_t>(plan_.block_sum_count)};
}

StepMemory* Memory::step() const noexcept { return reinterpret_cast<StepMemory*>(scratch_->data() + plan_.scalars); }

std::span<float> Memory::transfer() const noexcept {
  return {reinterpret_cast<float*>(scratch_->data() + plan_.transfer),
          static_cast<std::size_t>(plan_.transfer_bytes) / sizeof(float)};
}

Range Memory::optimized(FlatId flat) const noexcept {
  return held(this->flat(flat).trainable, request_.placements.optimizer, place());
}

}  // namespace zeroth::shard
