#include "zeroth/shard/shard_manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <type_traits>

#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {

using comm::Operation;
using device::Category;

namespace {

static_assert(sizeof(optim::StepSums) % sizeof(double) == 0);
static_assert(std::is_trivially_copyable_v<StepMemory>);  // it starts as a copy of the host's
constexpr std::int64_t sums_count = sizeof(optim::StepSums) / sizeof(double);

std::vector<std::unique_ptr<device::Event>> events(device::Device& device, std::size_t count) {
  std::vector<std::unique_ptr<device::Event>> result(count);
  std::ranges::generate(result, [&] { return device.make_event(); });
  return result;
}

}  // namespace

ShardManager::ShardManager(ManagerContext const& context, PlanRequest const& request,
                           optim::LossScaleState const& loss_scale)
    : context_{context},
      request_{request},
      plan_{plan_memory(*context.layout, request)},
      rank_{context.gather_comm->rank()},
      kernels_{&context.device->kernels()},
      parameters_{context.device->allocate(Category::parameters, plan_.bytes.parameters)},
      gradients_{context.device->allocate(Category::gradients, plan_.bytes.gradients)},
      optimizer_{context.device->allocate(Category::optimizer, plan_.bytes.optimizer)},
      slots_{context.device->allocate(Category::slots, plan_.bytes.slots)},
      scratch_{context.device->allocate(Category::scratch, plan_.bytes.scratch)},
      step_{reinterpret_cast<StepMemory*>(scratch_->data() + plan_.scalars)},
      host_{context.device->allocate_host(sizeof(StepResults))},
      results_{::new (host_->data()) StepResults{}},
      parameter_pool_{*context.device, request.parameter_slots, slots_->data() + plan_.parameter_slots,
                      bytes_of(request.precision.compute)},
      gradient_pool_{*context.device, request.gradient_slots, slots_->data() + plan_.gradient_slots,
                     bytes_of(request.precision.gradient)},
      written_{events(*context.device, context.layout->flats().size())},
      updated_{events(*context.device, context.layout->flats().size())},
      decided_{context.device->make_event()},
      gathers_done_{context.device->make_event()},
      accumulating_(context.layout->flats().size(), 0),
      summed_before_(context.layout->flats().size(), 0),
      reduced_before_(context.layout->flats().size(), 0),
      touched_(context.model->params.size(), 0) {
  auto const& flats = context.layout->flats();
  for (std::uint32_t flat = 0; flat < flats.size(); ++flat) {
    auto const& part = flats[flat].trainable;
    segments_.push_back(segments(*context.model, part, held(part, request.placements.optimizer, rank_)));
    auto const whole = [&](std::byte* data) {
      return Slot{data, context.device->make_event(), context.device->make_event(), std::int64_t{flat}};
    };
    if (parameters_whole()) {
      whole_parameters_.push_back(whole(parameters_->data() + plan_.flats[flat].parameters));
    }
    if (gradients_whole()) {
      whole_gradients_.push_back(whole(gradients_->data() + plan_.flats[flat].gradient));
    }
  }
  transaction_.reserve(2 * flats.size() + 2);
  lent_.reserve(context.model->params.size());
  results_->initial.scalars.loss_scale = loss_scale;
  kernels_->copy(context.device->compute(), step_, &results_->initial, sizeof(StepMemory));
  context.device->compute().synchronize();
  registrations_.push_back(context.gather_comm->register_memory(*parameters_));
  registrations_.push_back(context.gather_comm->register_memory(*slots_));
  if (context.reduce_comm != context.gather_comm) {
    registrations_.push_back(context.reduce_comm->register_memory(*slots_));
  }
  registrations_.push_back(context.reduce_comm->register_memory(*gradients_));
  context.reduce_comm->set_staging(
      {scratch_->data() + plan_.comm_staging, static_cast<std::size_t>(plan_.comm_staging_bytes)});
}

bool ShardManager::empty(std::uint32_t flat) const noexcept {
  return context_.layout->flats()[flat].padded_count() == 0;
}
bool ShardManager::parameters_whole() const noexcept { return request_.placements.parameters == Placement::whole; }
bool ShardManager::gradients_whole() const noexcept { return request_.placements.gradients == Placement::whole; }
bool ShardManager::optimizer_whole() const noexcept { return request_.placements.optimizer == Placement::whole; }
std::string_view ShardManager::name(std::uint32_t flat) const noexcept { return context_.layout->flats()[flat].name; }

Slot& ShardManager::parameter_slot(std::uint32_t flat) noexcept {
  return parameters_whole() ? whole_parameters_[flat] : *parameter_pool_.find(flat);
}
Slot& ShardManager::gradient_slot(std::uint32_t flat) noexcept {
  return gradients_whole() ? whole_gradients_[flat] : *gradient_pool_.find(flat);
}

ShardManager::Addresses ShardManager::addresses(std::uint32_t flat) const noexcept {
  auto const& at = plan_.flats[flat];
  auto const& part = context_.layout->flats()[flat].trainable;
  auto const& precision = request_.precision;
  // Where the optimizer's elements begin in memory that holds the whole.
  auto const own = held(part, request_.placements.optimizer, rank_).begin;
  auto const own_parameters = parameters_whole() ? own * bytes_of(precision.compute) : 0;
  Addresses result{};
  result.parameters = parameters_->data() + at.parameters;
  result.gradient = at.gradient < 0 ? nullptr : gradients_->data() + at.gradient;
  result.master = at.master < 0 ? result.parameters + own_parameters : optimizer_->data() + at.master;
  result.m = optimizer_->data() + at.m;
  result.v = optimizer_->data() + at.v;
  result.sums = at.sums < 0 ? nullptr : gradients_->data() + at.sums;
  bool const in_place = at.reduced < 0 && at.sums < 0;
  result.reduced_dtype = in_place ? precision.gradient : precision.accumulate;
  result.reduced = in_place       ? result.gradient + own * bytes_of(precision.gradient)
                   : at.sums >= 0 ? result.sums + own * bytes_of(Dtype::fp32)
                                  : gradients_->data() + at.reduced;
  result.updated_parameters = at.master < 0 ? nullptr : result.parameters + own_parameters;
  result.block_sums = reinterpret_cast<float*>(scratch_->data() + plan_.block_sums) + at.block_sums;
  return result;
}

void ShardManager::fill(device::Stream& stream, std::byte* data, Range range, Dtype dtype, std::uint8_t value) {
  kernels_->fill(stream, data + range.begin * bytes_of(dtype), range.count() * bytes_of(dtype), value);
}

// ---- parameters -----------------------------------------------------------------------------------------------------

bool ShardManager::gathered(std::uint32_t flat) noexcept {
  return parameters_whole() || empty(flat) || parameter_pool_.find(flat) != nullptr;
}

void ShardManager::gather(std::uint32_t flat, std::string_view purpose,
                          std::function<std::int64_t(std::uint32_t)> const& distance) {
  Slot* const slot = parameter_pool_.bind_or_evict(flat, distance);
  ZEROTH_EXPECTS(slot != nullptr,
                 fmt::format("no parameter slot for unit \"{}\": all hold units that are in use", name(flat)));
  auto const& unit = context_.layout->flats()[flat];
  auto const dtype = request_.precision.compute;
  auto& stream = *context_.gather_stream;
  stream.wait(*slot->free);
  stream.wait(*updated_[flat]);
  if (context_.poison) {
    kernels_->fill(stream, slot->data, parameter_pool_.slot_bytes(flat), 0xff);
  }
  transaction_.clear();
  std::byte const* source = parameters_->data() + plan_.flats[flat].parameters;
  std::byte* destination = slot->data;
  for (auto const* part : {&unit.trainable, &unit.frozen}) {
    if (part->shard_count > 0) {
      transaction_.push_back({Operation::all_gather, source, destination, part->shard_count, dtype});
      source += part->shard_count * bytes_of(dtype);
      destination += part->padded_count * bytes_of(dtype);
    }
  }
  {
    device::SpanScope const span{stream, "gather", name(flat)};
    context_.gather_comm->submit(stream, {purpose, name(flat)}, transaction_);
  }
  stream.record(*slot->ready);
  traffic_.gathered_bytes += unit.padded_count() * bytes_of(dtype);
}

void ShardManager::pin(std::uint32_t flat) noexcept {
  if (!empty(flat)) {
    ++parameter_slot(flat).pins;
  }
}

void ShardManager::await(std::uint32_t flat, std::string_view purpose) {
  if (!empty(flat)) {
    context_.gather_comm->recorder().note("wait", purpose, name(flat));
    auto& compute = context_.device->compute();
    auto const& slot = parameter_slot(flat);
    compute.wait(*slot.ready);
    if (context_.poison) {
      kernels_->copy(compute, lent_parameters(flat), slot.data,
                     context_.layout->flats()[flat].padded_count() * bytes_of(request_.precision.compute));
    }
  }
}

void ShardManager::release(std::uint32_t flat, std::string_view purpose) {
  if (empty(flat)) {
    return;
  }
  auto& slot = parameter_slot(flat);
  context_.gather_comm->recorder().note("release", purpose, name(flat));
  if (--slot.pins == 0) {
    auto& compute = context_.device->compute();
    if (context_.poison) {
      fill(compute, lent_parameters(flat), {0, context_.layout->flats()[flat].padded_count()},
           request_.precision.compute, 0xff);
    }
    compute.record(*slot.free);
  }
}

std::byte* ShardManager::lent_parameters(std::uint32_t flat) const noexcept {
  return scratch_->data() + plan_.flats[flat].lent_parameters;
}

std::byte const* ShardManager::parameter(std::uint32_t param) noexcept {
  auto const& location = context_.layout->location(param);
  auto const* const data = context_.poison ? lent_parameters(location.flat) : parameter_slot(location.flat).data;
  return data + location.offset * bytes_of(request_.precision.compute);
}

// ---- gradients ------------------------------------------------------------------------------------------------------

bool ShardManager::begin_gradient(std::uint32_t flat) {
  if (accumulating_[flat] != 0) {
    return true;
  }
  if (!gradients_whole() && gradient_pool_.bind(flat) == nullptr) {
    return false;
  }
  auto& slot = gradient_slot(flat);
  auto& compute = context_.device->compute();
  auto const& part = context_.layout->flats()[flat].trainable;
  auto const dtype = request_.precision.gradient;
  compute.wait(*slot.free);
  if (context_.poison) {
    for (auto const& placed : part.params) {
      fill(compute, slot.data, {placed.offset, placed.offset + placed.count}, dtype, 0xff);
    }
  }
  if (!gradients_whole()) {  // a slot held another unit; memory of its own keeps the zeros that it was allocated with
    for (auto const& gap : part.padding) {
      fill(compute, slot.data, gap, dtype, 0);
    }
  }
  accumulating_[flat] = 1;
  return true;
}

ShardManager::Gradients ShardManager::gradients_of(std::uint32_t param) noexcept {
  auto const& location = context_.layout->location(param);
  auto const element_bytes = bytes_of(request_.precision.gradient);
  auto const offset = location.offset * element_bytes;
  return {gradient_slot(location.flat).data + offset,
          scratch_->data() + plan_.flats[location.flat].lent_gradient + offset,
          context_.model->params[param].count * element_bytes};
}

ShardManager::Contribution ShardManager::contribute(std::uint32_t param) {
  auto const gradients = gradients_of(param);
  float const beta = touched_[param] != 0 ? 1.0F : 0.0F;
  touched_[param] = 1;
  if (!context_.poison) {
    return {gradients.held, beta};
  }
  if (std::ranges::find(lent_, param) == lent_.end()) {
    lent_.push_back(param);
    kernels_->copy(context_.device->compute(), gradients.lent, gradients.held, gradients.bytes);
  }
  return {gradients.lent, beta};
}

void ShardManager::end_contributions() {
  auto& compute = context_.device->compute();
  for (auto const param : lent_) {
    auto const gradients = gradients_of(param);
    kernels_->copy(compute, gradients.held, gradients.lent, gradients.bytes);
    kernels_->fill(compute, gradients.lent, gradients.bytes, 0xff);
  }
  lent_.clear();
}

void ShardManager::end_gradient(std::uint32_t flat, bool reduce_next) {
  auto& compute = context_.device->compute();
  if (reduce_next || request_.sums_micro_steps) {
    for (auto const& placed : context_.layout->flats()[flat].trainable.params) {
      if (touched_[placed.param] == 0) {
        fill(compute, gradient_slot(flat).data, {placed.offset, placed.offset + placed.count},
             request_.precision.gradient, 0);
      }
      touched_[placed.param] = 0;
    }
  }
  compute.record(*written_[flat]);
  if (request_.sums_micro_steps) {
    add_up(flat, reduce_next);
  }
}

void ShardManager::add_up(std::uint32_t flat, bool last) {
  auto& stream = *context_.reduce_stream;
  stream.wait(*written_[flat]);
  device::ReduceEpilogue epilogue;
  epilogue.source = gradient_slot(flat).data;
  epilogue.source_dtype = request_.precision.gradient;
  epilogue.destination = addresses(flat).sums;
  epilogue.destination_dtype = Dtype::fp32;
  epilogue.count = context_.layout->flats()[flat].trainable.padded_count;
  epilogue.accumulate = summed_before_[flat] != 0;
  {
    device::SpanScope const span{stream, "add up", name(flat)};
    kernels_->reduce_epilogue(stream, epilogue);
  }
  give_up_gradient(flat);
  summed_before_[flat] = last ? 0 : 1;
}

void ShardManager::give_up_gradient(std::uint32_t flat) {
  auto& slot = gradient_slot(flat);
  context_.reduce_stream->record(*slot.free);
  if (!gradients_whole()) {
    gradient_pool_.unbind(slot);
  }
  accumulating_[flat] = 0;
}

std::pair<std::byte*, Dtype> ShardManager::unreduced(std::uint32_t flat) noexcept {
  return request_.sums_micro_steps ? std::pair{addresses(flat).sums, Dtype::fp32}
                                   : std::pair{gradient_slot(flat).data, request_.precision.gradient};
}

void ShardManager::reduce(std::span<std::uint32_t const> flats, bool last) {
  auto& stream = *context_.reduce_stream;
  auto const dtype = request_.precision.reduce;
  transaction_.clear();
  std::byte* conversion = plan_.conversion < 0 ? nullptr : scratch_->data() + plan_.conversion;
  for (auto const flat : flats) {
    stream.wait(*written_[flat]);
  }
  device::SpanScope const span{stream, "reduce", name(flats.front())};
  for (auto const flat : flats) {
    auto const& part = context_.layout->flats()[flat].trainable;
    auto [data, held_dtype] = unreduced(flat);
    if (held_dtype != dtype) {
      kernels_->convert(stream, conversion, dtype, data, held_dtype, part.padded_count);
      data = conversion;
      conversion += part.padded_count * bytes_of(dtype);
    }
    if (optimizer_whole()) {
      transaction_.push_back({Operation::all_reduce, data, data, part.padded_count, dtype});
    } else {
      auto* const own = data + part.slice(rank_).begin * bytes_of(dtype);
      transaction_.push_back({Operation::reduce_scatter, data, own, part.shard_count, dtype});
    }
    traffic_.reduced_bytes += part.padded_count * bytes_of(dtype);
  }
  context_.reduce_comm->submit(stream, {"backward", name(flats.front())}, transaction_);
  for (std::size_t i = 0; i < flats.size(); ++i) {
    // Both collectives leave what the optimizer holds at their output.
    reduced(flats[i], static_cast<std::byte*>(transaction_[i].output), last);
  }
}

void ShardManager::reduced(std::uint32_t flat, std::byte* data, bool last) {
  auto& stream = *context_.reduce_stream;
  auto const& part = context_.layout->flats()[flat].trainable;
  auto const at = addresses(flat);
  device::ReduceEpilogue epilogue;
  epilogue.source = data;
  epilogue.source_dtype = request_.precision.reduce;
  epilogue.destination = at.reduced;
  epilogue.destination_dtype = at.reduced_dtype;
  epilogue.count = held(part, request_.placements.optimizer, rank_).count();
  epilogue.accumulate = reduced_before_[flat] != 0;
  if (last) {
    epilogue.block_sums = at.block_sums;
    epilogue.sums_begin = optimizer_whole() ? part.slice(rank_).begin : 0;
    epilogue.sums_count = part.shard_count;
  }
  kernels_->reduce_epilogue(stream, epilogue);
  if (!request_.sums_micro_steps) {  // otherwise it was given up before
    give_up_gradient(flat);
  }
  reduced_before_[flat] = last ? 0 : 1;
}

// ---- update ---------------------------------------------------------------------------------------------------------

void ShardManager::decide(optim::StepSums const& mine, std::span<optim::LossTerm const> losses,
                          optim::StepRules const& rules, std::size_t slot) {
  auto& stream = *context_.reduce_stream;
  device::SpanScope const span{stream, "decide", ""};
  std::span const block_sums{reinterpret_cast<float const*>(scratch_->data() + plan_.block_sums),
                             static_cast<std::size_t>(plan_.block_sum_count)};
  kernels_->collect(stream, block_sums, mine, &step_->mine);
  for (auto const& loss : losses) {
    kernels_->add_loss(stream, loss, &step_->mine);
  }
  context_.reduce_comm->all_reduce(stream, {"step", ""}, &step_->mine, &step_->total, sums_count, Dtype::fp64);
  kernels_->advance(stream, rules, &step_->total, &step_->scalars);
  kernels_->copy(stream, &results_->scalars[slot], &step_->scalars, sizeof(optim::StepScalars));
  kernels_->copy(stream, &results_->totals[slot], &step_->total, sizeof(optim::StepSums));
  stream.record(*decided_);
  last_decided_ = rules.loss_scale.dynamic ? static_cast<std::int64_t>(slot) : -1;
}

void ShardManager::await_gathers() {
  context_.gather_stream->record(*gathers_done_);
  context_.device->compute().wait(*gathers_done_);
}

void ShardManager::begin_update() {
  context_.device->compute().wait(*decided_);
  // Other ranks may still be reading this rank's shards, or slices that it published, until the last gather is done.
  await_gathers();
}

void ShardManager::update(std::uint32_t flat, optim::AdamRules const& rules) {
  auto& compute = context_.device->compute();
  auto const at = addresses(flat);
  optim::AdamwArgs args;
  args.master = at.master;
  args.master_dtype = request_.precision.master;
  args.m = at.m;
  args.v = at.v;
  args.moments_dtype = request_.precision.moments;
  args.gradient = at.reduced;
  args.gradient_dtype = at.reduced_dtype;
  args.parameter = at.updated_parameters;
  args.parameter_dtype = request_.precision.compute;
  args.count = held(context_.layout->flats()[flat].trainable, request_.placements.optimizer, rank_).count();
  args.segments = segments_[flat];
  args.rules = rules;
  args.scalars = &step_->scalars;
  {
    device::SpanScope const span{compute, "update", name(flat)};
    kernels_->adamw(compute, args);
  }
  compute.record(*updated_[flat]);
  context_.gather_comm->recorder().note("update", "step", name(flat));
}

void ShardManager::publish(std::uint32_t flat) {
  if (!parameters_whole() || optimizer_whole()) {
    return;
  }
  auto& stream = *context_.gather_stream;
  auto& slot = parameter_slot(flat);
  auto const& part = context_.layout->flats()[flat].trainable;
  auto const dtype = request_.precision.compute;
  stream.wait(*updated_[flat]);
  transaction_.assign(1, {Operation::all_gather, slot.data + part.slice(rank_).begin * bytes_of(dtype), slot.data,
                          part.shard_count, dtype});
  {
    device::SpanScope const span{stream, "publish", name(flat)};
    context_.gather_comm->submit(stream, {"publish", name(flat)}, transaction_);
  }
  stream.record(*slot.ready);
  traffic_.gathered_bytes += part.padded_count * bytes_of(dtype);
}

void ShardManager::drop_gathered(Drop what) noexcept {
  auto const updated = [&](std::int64_t flat) {
    return context_.layout->flats()[static_cast<std::size_t>(flat)].trainable.padded_count > 0;
  };
  for (auto& slot : parameter_pool_.slots()) {
    if (slot.flat >= 0 && (what == Drop::all || updated(slot.flat))) {
      parameter_pool_.unbind(slot);
    }
  }
}

optim::StepSums ShardManager::sum_evaluation(optim::StepSums const& mine) {
  auto& stream = *context_.reduce_stream;
  kernels_->collect(stream, {}, mine, &step_->evaluation_mine);
  context_.reduce_comm->all_reduce(stream, {"evaluation", ""}, &step_->evaluation_mine, &step_->evaluation_total,
                                   sums_count, Dtype::fp64);
  kernels_->copy(stream, &results_->evaluation, &step_->evaluation_total, sizeof(optim::StepSums));
  stream.synchronize();
  return results_->evaluation;
}

StepResults const& ShardManager::results() {
  decided_->synchronize();
  return *results_;
}

float ShardManager::loss_scale() {
  return last_decided_ < 0 ? results_->initial.scalars.loss_scale.scale
                           : results().scalars[static_cast<std::size_t>(last_decided_)].loss_scale.scale;
}

}  // namespace zeroth::shard
