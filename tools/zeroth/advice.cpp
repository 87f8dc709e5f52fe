// SPDX-License-Identifier: Apache-2.0
#include "advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>

#include <zeroth/core/error.hpp>

#include "option_values.hpp"

namespace zeroth::tools {
namespace {

/// A value of a key that may need less memory than the file's value.
struct Candidate {
  std::string_view section, key, value;
  bool numbers_differ;
};

std::string changes_of(std::string_view section, std::string_view key, std::string_view value) {
  return section.empty() ? fmt::format(R"({{"{}": {}}})", key, value)
                         : fmt::format(R"({{"{}": {{"{}": {}}}}})", section, key, value);
}

constexpr Candidate candidates[] = {
    {"zeroth", "gradient_slots", "1", false},
    {"zero_optimization", "stage3_prefetch_bucket_size", "0", false},
    {"zero_optimization", "reduce_bucket_size", "\"auto\"", false},
    {"zeroth", "reduce_gradients", "\"every_micro_step\"", true},
    {"zeroth", "reduce_gradients", "\"last_micro_step\"", true},
    {"data_types", "grad_accum_dtype", "\"bf16\"", true},
    {"data_types", "grad_accum_dtype", "\"fp16\"", true},
    {"zeroth", "gradient_dtype", "\"bf16\"", true},
    {"zeroth", "gradient_dtype", "\"fp16\"", true},
    {"", "communication_data_type", "\"bf16\"", true},
    {"", "communication_data_type", "\"fp16\"", true},
    {"bf16", "enabled", "true", true},
    {"bf16", "bf16_master_weights_and_grads", "true", true},
    {"bf16", "bf16_optimizer_states", "true", true},
};

/// Total bytes of the plan with `changes`; nullopt if the file then contradicts itself or the world.
std::optional<std::int64_t> total_of(PlanInput const& input, std::string const& changes) {
  try {
    return plan_of(changed(input, changes)).bytes.total();
  } catch (ConfigError const&) {
    return {};
  }
}

/// The largest tiles or buffers with which `input` fits, or else the smallest that were tried; the file's other keys
/// stay. nullopt if they save no memory. `changes` makes the changes for a size, `in_tier` gives the bytes that a plan
/// keeps in the tier.
template <class Changes, class InTier>
std::optional<TierSaving> tier_saving(PlanInput const& input, std::int64_t total, std::int64_t device_bytes,
                                      Changes const& changes, InTier const& in_tier) {
  std::optional<TierSaving> best;
  constexpr std::int64_t largest = 1 << 26;
  constexpr std::int64_t smallest = 1 << 18;
  for (auto count = largest; count >= smallest && (!best || best->total > device_bytes); count /= 4) {
    auto const plan = plan_of(changed(input, changes(count)));
    if (plan.bytes.total() < (best ? best->total : total)) {
      best = {count, plan.bytes.total(), in_tier(plan)};
    }
  }
  return best;
}

std::string states_in_tier(bool on_gpu, std::int64_t tile) {
  return fmt::format(R"({{"zero_optimization": {{"sub_group_size": {}, "offload_optimizer": {{{}}}}}}})", tile,
                     on_gpu ? R"("device": "cpu")" : R"("device": "nvme", "nvme_path": ".")");
}

std::optional<TierSaving> states_saving(PlanInput const& input, std::int64_t total, std::int64_t device_bytes) {
  bool const on_gpu = input.options.device == DeviceKind::cuda;
  auto const wanted = on_gpu ? OffloadDevice::cpu : OffloadDevice::nvme;
  if (plan_of(input).settings.offload.optimizer == wanted) {
    return {};
  }
  return tier_saving(
      input, total, device_bytes, [&](std::int64_t tile) { return states_in_tier(on_gpu, tile); },
      [&](Plan const& plan) { return on_gpu ? plan.host.bytes : plan.disk.bytes; });
}

/// Advises parameters on a disk if offloading the optimizer's states, as `states` advises, is not enough.
std::optional<TierSaving> parameters_saving(PlanInput const& input, std::optional<TierSaving> const& states,
                                            std::int64_t total, std::int64_t device_bytes) {
  auto const settings = plan_of(input).settings;
  auto const without = states ? states->total : total;
  if (input.options.device == DeviceKind::cuda || settings.stage != 3 || without <= device_bytes ||
      settings.offload.parameters == OffloadDevice::nvme) {
    return {};
  }
  auto const beside = states ? changed(input, states_in_tier(false, states->count)) : input;
  auto const changes = [](std::int64_t buffer) {
    return fmt::format(R"({{"zero_optimization": {{"offload_param": {{"device": "nvme", "nvme_path": ".",
                           "max_in_cpu": 0, "buffer_size": {}}}}}}})",
                       buffer);
  };
  try {
    return tier_saving(beside, without, device_bytes, changes,
                       [](Plan const& plan) { return plan.parameters_disk.bytes; });
  } catch (ConfigError const&) {  // another key rules it out
    return {};
  }
}

int next_power_of_two(int world) noexcept { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(world) + 1)); }

/// The advice for a stage, and the input after it.
struct Explored {
  StageAdvice advice;
  PlanInput best;  ///< With all savings that leave the numbers unchanged.
};

Explored explore(PlanInput const& input, int stage, std::int64_t total, std::int64_t device_bytes) {
  auto const states = states_saving(input, total, device_bytes);
  Explored result{{.stage = stage,
                   .savings = {},
                   .total_with_savings = total,
                   .states = states,
                   .parameters = parameters_saving(input, states, total, device_bytes)},
                  input};
  auto& [advice, best] = result;
  for (auto const& [section, name, value, numbers_differ] : candidates) {
    auto const changes = changes_of(section, name, value);
    auto const with = total_of(input, changes);
    auto key = fmt::format("{}{}{}", section, section.empty() ? "" : ".", name);
    if (!with || *with >= total || std::ranges::find(advice.savings, key, &Saving::key) != advice.savings.end()) {
      continue;
    }
    advice.savings.push_back({std::move(key), std::string{value}, total - *with, numbers_differ});
    if (auto const together = total_of(best, changes); !numbers_differ && together) {
      best = changed(best, changes);
      advice.total_with_savings = *together;
    }
  }
  std::ranges::stable_sort(advice.savings, std::ranges::greater{}, &Saving::bytes);
  return result;
}

/// The smallest power of two above the input's world that fits, and whether the file refused a smaller one.
struct WiderWorld {
  std::optional<int> world;
  bool refused = false;
};

WiderWorld wider_world(PlanInput input, std::int64_t device_bytes) {
  WiderWorld result;
  for (input.world = next_power_of_two(input.world); input.world <= largest_world; input.world *= 2) {
    auto const total = total_of(input, "{}");
    result.refused = result.refused || !total;
    if (total && *total <= device_bytes) {
      result.world = input.world;
      break;
    }
  }
  return result;
}

}  // namespace

Advice advise(PlanInput const& input, std::vector<StagePlan> const& stages, int stage, std::int64_t device_bytes) {
  Advice advice;
  auto const fits = [&](StagePlan const& s) { return s.plan && s.plan->bytes.total() <= device_bytes; };
  auto const smallest = std::ranges::find_if(stages, fits);
  if (smallest != stages.end()) {
    advice.smallest_stage = smallest->stage;
  }
  std::vector<int> asked{stage};
  if (stage != 3 && !advice.smallest_stage) {
    asked.push_back(3);
  }
  for (auto const number : asked) {
    if (auto const& planned = stages[static_cast<std::size_t>(number)].plan) {
      auto explored = explore(at_stage(input, number), number, planned->bytes.total(), device_bytes);
      if (number == 3 && explored.advice.total_with_savings > device_bytes) {
        advice.world_with_savings = wider_world(explored.best, device_bytes).world;
      }
      advice.stages.push_back(std::move(explored.advice));
    }
  }
  if (auto const& last = stages.back(); last.plan && !fits(last)) {
    auto const wider = wider_world(at_stage(input, 3), device_bytes);
    advice.world_for_stage_3 = wider.world;
    advice.worlds_refused = wider.refused;
    if (advice.world_with_savings == wider.world) {
      advice.world_with_savings.reset();
    }
  }
  return advice;
}

}  // namespace zeroth::tools
