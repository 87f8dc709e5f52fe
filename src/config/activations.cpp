// SPDX-License-Identifier: Apache-2.0
/// Activations: DeepSpeed's section activation_checkpointing, and the one in Zeroth's section.
#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

#include "config/assemble.hpp"
#include "config/named_rules.hpp"

namespace zeroth::config {
namespace {

void take_units(UnitChoice const& choice, ActivationSettings& settings) {
  auto const& word = choice.word;
  if (choice.names != nullptr) {
    settings.units = RecomputedUnits::listed;
    settings.names = choice.copy();
  } else if (word.starts_with(every_so_many)) {
    settings.units = RecomputedUnits::every;
    std::from_chars(word.data() + every_so_many.size(), word.data() + word.size(), settings.every);
  } else {
    settings.units = word == "all" ? RecomputedUnits::all : RecomputedUnits::none;
  }
}

bool recomputes_none(Values const& values) {
  return values.get<"zeroth.activation_checkpointing.units">().word == "none";
}

}  // namespace

ActivationSettings activations(Values const& values) {
  ActivationSettings settings;
  if (values.says<"activation_checkpointing.number_checkpoints">()) {
    settings.number_checkpoints = values.get<"activation_checkpointing.number_checkpoints">();
  }
  settings.cpu_checkpointing = values.get<"activation_checkpointing.cpu_checkpointing">();
  take_units(values.get<"zeroth.activation_checkpointing.units">(), settings);
  auto const offload = values.get<"zeroth.activation_checkpointing.offload">();
  settings.offload = offload == "nvme"  ? ActivationOffload::nvme
                     : offload == "cpu" ? ActivationOffload::cpu
                                        : ActivationOffload::none;
  if (values.says<"zeroth.activation_checkpointing.nvme_path">()) {
    settings.nvme_path = values.get<"zeroth.activation_checkpointing.nvme_path">();
  }
  return settings;
}

namespace derive {

Value recomputed_units(Values const& values) {
  return UnitChoice{values.says<"activation_checkpointing.number_checkpoints">() ? "all" : "none", nullptr};
}

Value activation_offload(Values const& values) {
  return std::string_view{values.get<"activation_checkpointing.cpu_checkpointing">() ? "cpu" : "none"};
}

}  // namespace derive

std::string recomputed_units_are_said_once(Values const& values) {
  if (!values.says<"zeroth.activation_checkpointing.units">() ||
      !values.says<"activation_checkpointing.number_checkpoints">()) {
    return {};
  }
  auto const units = values.get<"zeroth.activation_checkpointing.units">();
  return units.word == "all" ? std::string{}
                             : fmt::format(
                                   "not \"all\", but activation_checkpointing.number_checkpoints is {}, by which all "
                                   "units are recomputed; keep one of the two keys",
                                   values.get<"activation_checkpointing.number_checkpoints">());
}

std::string activation_offload_is_said_once(Values const& values) {
  if (!values.says<"zeroth.activation_checkpointing.offload">() ||
      !values.says<"activation_checkpointing.cpu_checkpointing">()) {
    return {};
  }
  auto const offload = values.get<"zeroth.activation_checkpointing.offload">();
  bool const on_host = values.get<"activation_checkpointing.cpu_checkpointing">();
  return (offload == "cpu") == on_host
             ? std::string{}
             : fmt::format("\"{}\", but activation_checkpointing.cpu_checkpointing is {}; keep one of the two keys",
                           offload, on_host);
}

std::string offloaded_inputs_are_kept(Values const& values) {
  auto const offload = values.get<"zeroth.activation_checkpointing.offload">();
  bool const asks = values.says<"zeroth.activation_checkpointing.offload">() && offload != "none" &&
                    !values.get<"activation_checkpointing.cpu_checkpointing">();
  return asks && recomputes_none(values)
             ? fmt::format(
                   "\"{}\", but zeroth.activation_checkpointing.units is \"none\", and only inputs of recomputed units "
                   "are offloaded; allowed: \"none\", or other units",
                   offload)
             : std::string{};
}

std::string activations_on_disk_have_a_folder(Values const& values) {
  bool const has_folder = values.says<"zeroth.activation_checkpointing.nvme_path">() &&
                          !values.get<"zeroth.activation_checkpointing.nvme_path">().empty();
  return values.get<"zeroth.activation_checkpointing.offload">() != "nvme" || has_folder
             ? ""
             : "missing; activation_checkpointing.offload \"nvme\" needs a folder on a disk";
}

}  // namespace zeroth::config

std::string_view zeroth::name_of(ActivationOffload offload) noexcept {
  switch (offload) {
    case ActivationOffload::cpu: return "cpu";
    case ActivationOffload::nvme: return "nvme";
    case ActivationOffload::none: break;
  }
  return "none";
}
