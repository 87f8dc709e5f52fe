// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config/keys.hpp"
#include "config/named_rules.hpp"

namespace zeroth::config {

std::string delayed_updates_are_possible(Values const& values) {
  if (!values.get<"zeroth.delayed_update">()) {
    return {};
  }
  auto const but = [](std::string const& other, std::string_view why, std::string_view allowed) {
    return fmt::format("true, but {}, and {}; set this to false, or {}", other, why, allowed);
  };
  if (values.get<"zero_optimization.stage">() == 3) {
    return but("zero_optimization.stage is 3", "each pass gathers parameters, which have to be updated by then",
               "take stage 0, 1 or 2");
  }
  if (auto const device = values.get<"zero_optimization.offload_optimizer.device">(); device != "none") {
    return but(fmt::format("zero_optimization.offload_optimizer.device is \"{}\"", device),
               "updates of offloaded states go through memory that they share with compute", "that to \"none\"");
  }
  if (values.says<"zero_optimization.cpu_offload">() && values.get<"zero_optimization.cpu_offload">()) {
    return but("zero_optimization.cpu_offload is true",
               "updates of offloaded states go through memory that they share with compute", "that to false");
  }
  if (auto const stages = values.get<"zeroth.mesh.pipeline">(); stages > 1) {
    return but(fmt::format("zeroth.mesh.pipeline is {}", stages),
               "a stage uses parameters for the last time while the next micro-steps are already under way",
               "that to 1");
  }
  if (values.get<"zeroth.tied_gradients">() == "apart") {
    return but("zeroth.tied_gradients is \"apart\"",
               "sums of tied parameters are complete only after all of a step's passes", "that to \"together\"");
  }
  auto const type = values.get<"optimizer.type">();
  if (type == "Muon" || type == "Lamb" || type == "OneBitAdam") {
    return but(fmt::format("optimizer.type is {}", type),
               "it needs all of a step's gradients before it updates the first unit", "take another optimizer");
  }
  return {};
}

std::string delayed_updates_overlap(Values const& values) {
  return values.get<"zeroth.delayed_update">() && !values.get<"zero_optimization.overlap_comm">()
             ? "true, but zero_optimization.overlap_comm is false: updates are late, and nothing runs beside compute"
             : "";
}

}  // namespace zeroth::config
