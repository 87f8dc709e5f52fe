#include "zeroth/shard/memory_plan.hpp"

#include <algorithm>

#include "zeroth/device/kernels.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/shard/step_memory.hpp"

namespace zeroth::shard {
namespace {

// All counts of flat units are multiples of alignment_count elements, so only odd pieces of scratch ever need rounding.
constexpr std::int64_t alignment_bytes = 256;

/// Hands out consecutive pieces of one category.
class Cursor {
 public:
  explicit Cursor(std::int64_t& end) noexcept : end_{&end} {}
  [[nodiscard]] std::int64_t take(std::int64_t bytes) noexcept {
    auto const start = *end_;
    *end_ += (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    return start;
  }

 private:
  std::int64_t* end_;
};

std::int64_t held_count(Part const& part, Placement placement) noexcept { return held(part, placement, 0).count(); }

}  // namespace

Range held(Part const& part, Placement placement, int rank) noexcept {
  return placement == Placement::whole ? Range{0, part.padded_count} : part.slice(rank);
}

MemoryPlan plan_memory(Layout const& layout, PlanRequest const& request) {
  auto const& [placements, precision, several_reductions, parameter_slots, gradient_slots, bucket, staging] = request;
  MemoryPlan plan;
  Cursor parameters{plan.bytes.parameters}, gradients{plan.bytes.gradients}, optimizer{plan.bytes.optimizer},
      slots{plan.bytes.slots}, scratch{plan.bytes.scratch};
  bool const gradients_whole = placements.gradients == Placement::whole;
  // Reductions happen in place, and the optimizer reads them there, if they leave nothing to convert or to add up.
  bool const in_place = gradients_whole && !several_reductions && precision.reduce == precision.gradient &&
                        precision.accumulate == precision.gradient;
  std::int64_t largest_shard = 0;

  for (auto const& flat : layout.flats()) {
    FlatOffsets at;
    auto const& part = flat.trainable;
    auto const updated = held_count(part, placements.optimizer);
    at.parameters =
        parameters.take((held_count(part, placements.parameters) + held_count(flat.frozen, placements.parameters)) *
                        bytes_of(precision.compute));
    if (precision.compute != Dtype::fp32) {
      at.master = optimizer.take(updated * bytes_of(Dtype::fp32));
    }
    at.m = optimizer.take(updated * bytes_of(Dtype::fp32));
    at.v = optimizer.take(updated * bytes_of(Dtype::fp32));
    if (gradients_whole) {
      at.gradient = gradients.take(part.padded_count * bytes_of(precision.gradient));
    }
    if (!in_place) {
      at.reduced = gradients.take(updated * bytes_of(precision.accumulate));
    }
    at.block_sums = plan.block_sum_count;
    plan.block_sum_count += device::sum_blocks(part.shard_count);
    largest_shard = std::max({largest_shard, part.shard_count, flat.frozen.shard_count});
    plan.flats.push_back(at);
  }
  plan.parameter_slots = slots.take(parameter_slots.total_count() * bytes_of(precision.compute));
  plan.gradient_slots = slots.take(gradient_slots.total_count() * bytes_of(precision.gradient));
  plan.block_sums = scratch.take(plan.block_sum_count * bytes_of(Dtype::fp32));
  plan.scalars = scratch.take(static_cast<std::int64_t>(sizeof(StepMemory)));
  if (precision.reduce != precision.gradient) {
    plan.conversion = scratch.take(bucket * bytes_of(precision.reduce));
  }
  plan.comm_staging_bytes = staging;
  plan.comm_staging = scratch.take(staging);
  plan.transfer_bytes = std::min(largest_shard * bytes_of(Dtype::fp32), std::int64_t{1} << 20U);
  plan.transfer = scratch.take(plan.transfer_bytes);
  return plan;
}

}  // namespace zeroth::shard
