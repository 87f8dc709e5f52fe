// SPDX-License-Identifier: Apache-2.0
#include "shard/memory.hpp"

#include <algorithm>
#include <utility>

#include "shard/host_states.hpp"
#include "shard/parameter_norms.hpp"
#include "shard/swapped_states.hpp"
#include "zeroth/core/error.hpp"

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
      slots_{context.device->allocate(
          Category::slots, plan_.bytes.slots - plan_.disk.memory_bytes() - plan_.parameters_disk.memory_bytes())},
      scratch_{context.device->allocate(Category::scratch, plan_.bytes.scratch)},
      updated_{events_by_flat(context)} {
  for (auto const& flat : layout().flats()) {
    routes_.push_back(routes_of(flat, request_, place()));
  }
  if (context.registers_memory) {
    register_memory();
  }
  auto const job_goes_on = [all = context.gather.all()] {
    if (auto const failure = all->failure()) {
      throw PeerError{*failure};
    }
  };
  offload(job_goes_on);
  auto const log = [&](comm::Communicator const* communicator) {
    auto const is = [&](TransactionLog const& each) { return &each.communicator() == communicator; };
    if (communicator != nullptr && std::ranges::none_of(transactions_, is)) {
      transactions_.emplace_back(*communicator);
    }
  };
  // All communicators of a stream share staging memory, since the stream runs their transactions one after another.
  std::span const staging{scratch_->data() + plan_.comm_staging, static_cast<std::size_t>(plan_.comm_staging_bytes)};
  for (auto const lane : {Lane::gather, Lane::reduce}) {
    for (auto const axes : Ranks::in_order) {
      auto* const communicator = ranks(lane).over(axes);
      if (communicator != nullptr && lane == Lane::reduce) {
        communicator->set_staging(staging);
      }
      log(communicator);
    }
  }
  if (context.tensor != nullptr) {
    context.tensor->set_staging(staging);
    log(context.tensor);
  }
  std::ranges::for_each(context.ties, log);
  log(context.deciders);
}

void Memory::offload(std::function<void()> const& check) {
  if (plan_.disk.bytes > 0) {
    OffloadedStates::Parts parts{.device = context_.device,
                                 .layout = context_.layout,
                                 .plan = &plan_.disk,
                                 .offload = &request_.offload,
                                 .states = stored_states(layout(), plan_, request_),
                                 .check = check,
                                 .section = "offload_optimizer"};
    if (plan_.disk.host_tiles >= 0) {
      offloaded_states_ = std::make_unique<HostStates>(std::move(parts), *this);
    } else {
      offloaded_states_ = std::make_unique<SwappedStates>(std::move(parts));
    }
    offloaded_.push_back(offloaded_states_.get());
  }
  if (plan_.parameters_disk.bytes > 0) {
    offloaded_parameters_ =
        std::make_unique<OffloadedParameters>(*context_.device, *context_.layout, plan_, request_, place(), check);
    offloaded_.push_back(offloaded_parameters_.get());
  }
}

void Memory::register_memory() {
  std::vector<std::pair<comm::Communicator*, device::Memory*>> known;
  auto const add = [&](comm::Communicator& communicator, device::Memory& memory) {
    if (std::ranges::find(known, std::pair{&communicator, &memory}) == known.end()) {
      known.emplace_back(&communicator, &memory);
      registrations_.push_back(communicator.register_memory(memory));
    }
  };
  auto const add_along = [&](Route const& route, device::Memory& memory) {
    for (auto const& hop : route.hops) {
      add(*ranks(route.lane).over(hop.axes), memory);
    }
  };
  add(gathers(), *parameters_);
  add(gathers(), *slots_);
  for (auto const& [gather, gather_frozen, sum, share, publish] : routes_) {
    add_along(publish, *parameters_);
    add_along(sum, *slots_);
    add_along(sum, *gradients_);
    add_along(share, *gradients_);
  }
  for (auto* const tie : context_.ties) {
    if (tie != nullptr) {
      add(*tie, *gradients_);
    }
  }
}

comm::Communicator& Memory::gathers() const noexcept {
  auto const cut = request_.placements.parameters.cut;
  return *context_.gather.over(cut.empty() ? all_axes : cut);
}

void Memory::note_call(std::string_view what, std::optional<FlatId> unit, std::span<comm::Collective const> collectives,
                       comm::Communicator const& among) {
  auto const is = [&](TransactionLog const& log) { return &log.communicator() == &among; };
  std::ranges::find_if(transactions_, is)->add(what, unit, collectives);
  if (context_.calls != nullptr) {
    context_.calls->add(what, unit ? std::string_view{flat(*unit).name} : std::string_view{}, collectives,
                        among.world());
  }
}

void Memory::note_messages(std::string_view what, FlatId unit, comm::Operation operation, std::int64_t bytes) {
  if (context_.calls != nullptr) {
    comm::Collective const all{.operation = operation, .count = bytes, .dtype = Dtype::byte};
    context_.calls->add(what, flat(unit).name, {&all, 1}, 1);
  }
}

std::uint64_t Memory::transactions_hash() const noexcept {
  std::uint64_t hash = 0;
  for (auto const& log : transactions_) {
    hash = mix(hash, log.hash());
  }
  return hash;
}

Memory::Addresses Memory::addresses(FlatId flat) const noexcept {
  auto const& at = plan_.flats[flat];
  auto const precision = this->precision(flat);
  // Offsets of the optimizer's first element in memory that holds the whole, and among the parameters.
  auto const own = optimized(flat).begin;
  auto const summed_before = summed(flat).begin;
  auto const own_parameters =
      (own - held(this->flat(flat).trainable, parameters_of(flat)).begin) * bytes_of(precision.compute);
  Addresses result{};
  result.parameters = at.parameters < 0 ? nullptr : parameters_->data() + at.parameters;
  auto* const updated = result.parameters == nullptr ? nullptr : result.parameters + own_parameters;
  result.gradient = at.gradient < 0 ? nullptr : gradients_->data() + at.gradient;
  result.master = at.master < 0 ? updated : optimizer_->data() + at.master;
  for (std::size_t k = 0; k < at.states.size(); ++k) {
    result.states[k] = at.states[k] < 0 ? nullptr : optimizer_->data() + at.states[k];
  }
  result.sums = at.sums < 0 ? nullptr : gradients_->data() + at.sums;
  bool const in_place = at.reduced < 0 && at.sums < 0;
  result.reduced_dtype = in_place ? precision.gradient : precision.accumulate;
  result.reduced = in_place       ? result.gradient + summed_before * bytes_of(precision.gradient)
                   : at.sums >= 0 ? result.sums + summed_before * bytes_of(Dtype::fp32)
                                  : gradients_->data() + at.reduced;
  result.delayed = at.delayed < 0 ? nullptr : gradients_->data() + at.delayed;
  result.updated_parameters = at.master < 0 ? nullptr : updated;
  result.errors = at.errors < 0 ? nullptr : reinterpret_cast<float*>(optimizer_->data() + at.errors);
  result.slice_errors = at.slice_errors < 0 ? nullptr : reinterpret_cast<float*>(optimizer_->data() + at.slice_errors);
  result.block_sums =
      at.block_sums < 0 ? nullptr : reinterpret_cast<float*>(scratch_->data() + plan_.block_sums) + at.block_sums;
  result.lent_parameters = at.lent_parameters < 0 ? nullptr : scratch_->data() + at.lent_parameters;
  result.lent_gradient = at.lent_gradient < 0 ? nullptr : scratch_->data() + at.lent_gradient;
  return result;
}

optim::UpdateArgs Memory::update_args(FlatId flat, Range elements) const noexcept {
  auto const at = addresses(flat);
  auto const precision = this->precision(flat);
  auto const from_first = [&](std::byte* data, Dtype dtype) {
    return data == nullptr ? nullptr : data + elements.begin * bytes_of(dtype);
  };
  optim::UpdateArgs args;
  args.master = from_first(at.master, precision.master);
  args.master_dtype = precision.master;
  args.update = &update_of(flat);
  set_states(at.states, args);
  args.states_dtype = precision.states;
  args.gradient = from_first(at.delayed == nullptr ? at.reduced : at.delayed, at.reduced_dtype);
  args.gradient_dtype = at.reduced_dtype;
  args.parameter = from_first(at.updated_parameters, precision.compute);
  args.parameter_dtype = precision.compute;
  args.count = elements.count();
  args.scalars = &step()->scalars;
  return args;
}

std::vector<optim::Segment> Memory::segments_of(FlatId flat, Range elements) const {
  auto const first = optimized(flat).begin;
  auto result =
      segments(model(), this->flat(flat).trainable, {first + elements.begin, first + elements.end}, trust_ratios());
  for (auto& segment : result) {
    segment.learning_rate_factor *= update_of(flat).learning_rate_factor;
  }
  return result;
}

std::byte* Memory::tied() const noexcept { return plan_.tied < 0 ? nullptr : scratch_->data() + plan_.tied; }

std::byte* Memory::codec_scratch(Lane lane) const noexcept {
  auto const at = lane == Lane::gather ? plan_.encoded_gather : plan_.encoded_reduce;
  return at < 0 ? nullptr : scratch_->data() + at;
}

std::byte* Memory::pushed() const noexcept { return plan_.pushed < 0 ? nullptr : scratch_->data() + plan_.pushed; }

std::byte* Memory::directions() const noexcept {
  return plan_.directions < 0 ? nullptr : scratch_->data() + plan_.directions;
}

std::byte* Memory::parameter_norms() const noexcept {
  return plan_.parameter_norms < 0 ? nullptr : scratch_->data() + plan_.parameter_norms;
}

float* Memory::trust_ratios() const noexcept {
  return plan_.parameter_norms < 0 ? nullptr : ParameterNorms::ratios_in(parameter_norms(), layout());
}

std::byte* Memory::encoded_momenta() const noexcept {
  return plan_.encoded_momenta < 0 ? nullptr : scratch_->data() + plan_.encoded_momenta;
}

/// Block sums too: before momenta are encoded, only those of slices are written.
void Memory::clear_errors() {
  auto const fill = [this](void* data, std::int64_t bytes) {
    if (data != nullptr) {
      kernels().fill(compute(), data, bytes, 0);
    }
  };
  for (auto const id : layout().flats().ids()) {
    auto const& part = flat(id).gradients();
    fill(addresses(id).errors, part.padded_count * bytes_of(Dtype::fp32));
    fill(addresses(id).slice_errors, part.shard_count * bytes_of(Dtype::fp32));
  }
  fill(scratch_->data() + plan_.block_sums, plan_.block_sum_count * bytes_of(Dtype::fp32));
  compute().synchronize();
}

std::byte* Memory::conversion() const noexcept {
  return plan_.conversion < 0 ? nullptr : scratch_->data() + plan_.conversion;
}

std::span<float const> Memory::block_sums() const noexcept {
  return {reinterpret_cast<float const*>(scratch_->data() + plan_.block_sums),
          static_cast<std::size_t>(plan_.counted_block_sums)};
}

StepMemory* Memory::step() const noexcept { return reinterpret_cast<StepMemory*>(scratch_->data() + plan_.scalars); }

std::span<float> Memory::transfer() const noexcept {
  return {reinterpret_cast<float*>(scratch_->data() + plan_.transfer),
          static_cast<std::size_t>(plan_.transfer_bytes) / sizeof(float)};
}

Range Memory::optimized(FlatId flat) const noexcept {
  return held(this->flat(flat).trainable, request_.placements.optimizer);
}

Range Memory::summed(FlatId flat) const noexcept {
  return held(this->flat(flat).gradients(), request_.placements.optimizer);
}

}  // namespace zeroth::shard
