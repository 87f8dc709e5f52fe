// SPDX-License-Identifier: Apache-2.0
#include "engine/planned_activations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/block_file.hpp"
#include "zeroth/engine/activation_store.hpp"
#include "zeroth/engine/activations.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

PlannedActivations planned_activations(Model const& model, Config const& config, Settings const& settings,
                                       DeviceKind device) {
  ActivationPolicy const policy{config, model};
  bool const has_store =
      policy.offload() == (device == DeviceKind::cpu ? ActivationOffload::nvme : ActivationOffload::cpu);
  PlannedActivations planned;
  bool all_known = true;
  for (std::uint32_t i = 0; i < model.description().units.size(); ++i) {
    auto const unit = model.unit_at(i);
    planned.recomputed += policy.recomputes(unit) ? 1 : 0;
    if (has_store && policy.offloads(unit)) {
      ++planned.offloaded;
      auto const count = model.description().units[unit.id()].input_per_sample * settings.batch.micro;
      all_known = all_known && count > 0;
      planned.input_bytes = std::max(planned.input_bytes, count * bytes_of(settings.precision.compute));
    }
  }
  planned.input_bytes = all_known ? planned.input_bytes : 0;
  if (planned.input_bytes > 0) {
    auto const slots = ActivationStoreOptions{}.slots;
    auto const each = whole_blocks(planned.input_bytes);
    planned.stored_bytes = planned.offloaded * each;
    planned.memory_bytes = slots * each;
    planned.written_bytes = settings.batch.accumulation * planned.stored_bytes;
    planned.read_bytes = settings.batch.accumulation * std::max<std::int64_t>(0, planned.offloaded - slots) * each;
  }
  return planned;
}

std::string activation_lines(Plan const& plan) {
  auto const& planned = plan.activations;
  if (planned.recomputed == 0) {
    return {};
  }
  auto text = fmt::format("activations, which the program keeps: {} of {} units are recomputed", planned.recomputed,
                          plan.units);
  if (planned.offloaded > 0) {
    text += fmt::format("; the inputs of {} wait in {}", planned.offloaded,
                        plan.device == DeviceKind::cpu ? "a file" : "pinned memory of the host");
    text += planned.stored_bytes > 0
                ? fmt::format(" of {} B, with {} B of memory; a step writes {} B and reads {} B", planned.stored_bytes,
                              planned.memory_bytes, planned.written_bytes, planned.read_bytes)
                : ", whose size is unknown without UnitOptions::input_per_sample";
  }
  return text + "\n";
}

}  // namespace zeroth::engine
