// SPDX-License-Identifier: Apache-2.0
#include "shard/parameter_norms.hpp"

#include <algorithm>
#include <iterator>

namespace zeroth::shard {
namespace {

static_assert(sizeof(device::NormSums) % sizeof(double) == 0);

std::int64_t sums_bytes(Layout const& layout) noexcept {
  return static_cast<std::int64_t>(layout.param_count() * sizeof(device::NormSums));
}

/// Blocks of the flat unit that has the most.
std::int64_t most_blocks(Layout const& layout, PlanRequest const& request) noexcept {
  std::int64_t most = 0;
  for (auto const& flat : layout.flats()) {
    auto const count = held(flat.trainable, request.placements.optimizer, request.places, 0).count();
    most = std::max(most, device::sum_blocks(count));
  }
  return most;
}

/// Whether the rank at `place` adds its sums of `flat`: of the ranks that have the same elements and add up, the first
/// one does.
bool counts(FlatUnit const& flat, PlanRequest const& request, int place) noexcept {
  bool const first_of_tensor = flat.tensor_kind == TensorKind::cut || request.tensor.index == 0;
  bool const first_of_data =
      request.placements.optimizer != Placement::group || request.places.index(replica_axes, place) == 0;
  return first_of_tensor && first_of_data;
}

}  // namespace

/// Sums, ratios, then squares by blocks.
std::int64_t ParameterNorms::scratch_bytes(Layout const& layout, PlanRequest const& request) noexcept {
  auto const floats = static_cast<std::int64_t>(layout.param_count()) + 2 * most_blocks(layout, request);
  return sums_bytes(layout) + floats * bytes_of(Dtype::fp32);
}

float* ParameterNorms::ratios_in(std::byte* scratch, Layout const& layout) noexcept {
  return reinterpret_cast<float*>(scratch + sums_bytes(layout));
}

ParameterNorms::ParameterNorms(Memory& memory)
    : memory_{&memory},
      sums_{reinterpret_cast<device::NormSums*>(memory.parameter_norms())},
      weight_squares_{memory.trust_ratios() + memory.layout().param_count()},
      direction_squares_{weight_squares_ + most_blocks(memory.layout(), memory.request())},
      ratios_{memory.trust_ratios()},
      ready_{memory.context().device->make_event()},
      added_{memory.context().device->make_event()} {
  for (auto const id : memory.layout().update_order()) {
    auto const& flat = memory.flat(id);
    auto const own = memory.optimized(id);
    OfFlat of{.flat = id, .segments = {}, .params = {}, .counts = counts(flat, memory.request(), memory.place())};
    for (auto const& placed : flat.trainable.params) {
      auto const begin = std::max(placed.offset, own.begin), end = std::min(placed.offset + placed.count, own.end);
      if (begin < end) {
        auto const decay = memory.model().params[placed.param].options.weight_decay_factor;
        of.segments.push_back({.begin = begin - own.begin, .end = end - own.begin, .weight_decay_factor = decay});
        of.params.push_back(placed.param);
      }
    }
    flats_.push_back(std::move(of));
  }
}

std::vector<FlatId> ParameterNorms::flats() const {
  std::vector<FlatId> all;
  std::ranges::transform(flats_, std::back_inserter(all), &OfFlat::flat);
  return all;
}

void ParameterNorms::compute() {
  auto& kernels = memory_->kernels();
  auto& compute = memory_->compute();
  kernels.fill(compute, sums_, sums_bytes(memory_->layout()), 0);
  for (auto const& [flat, segments, params, counts] : flats_) {
    device::SpanScope const span{compute, "update", memory_->flat(flat).name};
    auto args = memory_->update_args(flat, {0, memory_->optimized(flat).count()});
    args.segments = segments;
    kernels.move_moments(compute, {args, weight_squares_, direction_squares_});
    for (std::size_t i = 0; counts && i < params.size(); ++i) {
      auto const first = segments[i].begin / device::sum_block_count;
      auto const blocks = static_cast<std::size_t>(device::sum_blocks(segments[i].end - segments[i].begin));
      auto& sums = sums_[index_of(params[i])];
      kernels.collect(compute, {weight_squares_ + first, blocks}, &sums.weights);
      kernels.collect(compute, {direction_squares_ + first, blocks}, &sums.directions);
    }
  }
  add_up();
  kernels.trust_ratios(compute, {.rule = &std::get<optim::Lamb>(memory_->request().settings.update.rule),
                                 .scalars = &memory_->step()->scalars,
                                 .sums = sums_,
                                 .ratios = ratios_,
                                 .count = static_cast<std::int64_t>(memory_->layout().param_count())});
}

/// Sums over the ranks that have different elements: those over which states are sharded, and tensor ranks.
void ParameterNorms::add_up() {
  auto* const data =
      memory_->request().placements.optimizer == Placement::whole ? nullptr : memory_->ranks(Lane::reduce).all();
  auto* const tensor = memory_->context().tensor;
  auto& stream = memory_->stream(Lane::reduce);
  comm::Collective const sum{.operation = comm::Operation::all_reduce,
                             .input = sums_,
                             .output = sums_,
                             .count = sums_bytes(memory_->layout()) / bytes_of(Dtype::fp64),
                             .dtype = Dtype::fp64};
  memory_->compute().record(*ready_);
  stream.wait(*ready_);
  for (auto* const among : {data, tensor}) {
    if (among != nullptr && among->world() > 1) {
      among->submit(stream, {"norms", ""}, {&sum, 1});
      memory_->note_call("norms", std::nullopt, {&sum, 1}, *among);
    }
  }
  stream.record(*added_);
  memory_->compute().wait(*added_);
}

}  // namespace zeroth::shard
