// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "zeroth/core/error.hpp"
#include "zeroth/engine/activations.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/tool/config/nearest.hpp"

namespace zeroth {
namespace {

std::size_t index_of_unit(std::vector<std::string_view> const& units, std::string_view name, Config const& config) {
  auto const at = std::ranges::find(units, name);
  if (at != units.end()) {
    return static_cast<std::size_t>(at - units.begin());
  }
  auto near = config::nearest(name, units);
  if (near.empty()) {  // a suffix is no misspelling: "h.0" of "transformer.h.0"
    auto const longer = std::ranges::find_if(units, [&](auto const& unit) { return unit.ends_with(name); });
    near = longer == units.end() ? near : *longer;
  }
  throw ConfigError{fmt::format(
      "{}: zeroth.activation_checkpointing.units: \"{}\" is no unit of the model{}; allowed: names of its {} "
      "units, \"{}\" to \"{}\"",
      config.source(), name, near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near), units.size(),
      units.front(), units.back())};
}

}  // namespace

ActivationPolicy::ActivationPolicy(Config const& config, Model const& model) : model_{model.description().id} {
  auto const asked = config.activation_checkpointing();
  offload_ = asked.offload;
  std::vector<std::string_view> units;
  for (auto const& unit : model.description().units) {
    units.push_back(unit.name);
  }
  recomputed_.resize(units.size(), asked.units == RecomputedUnits::all);
  if (asked.units == RecomputedUnits::every) {
    for (auto i = asked.every; i <= std::ssize(units); i += asked.every) {
      recomputed_[static_cast<std::size_t>(i - 1)] = true;
    }
  }
  for (auto const& name : asked.names) {
    recomputed_[index_of_unit(units, name, config)] = true;
  }
}

bool ActivationPolicy::recomputes(Unit unit) const {
  if (recomputed_.empty()) {
    return false;
  }
  ZEROTH_EXPECTS(unit.model() == model_, "ActivationPolicy: the unit belongs to another model");
  return recomputed_[unit.index()];
}

bool ActivationPolicy::offloads(Unit unit) const {
  bool const is_between = unit.index() > 0 && unit.index() + 1 < recomputed_.size();
  return offload_ != ActivationOffload::none && recomputes(unit) && is_between;
}

bool ActivationPolicy::recomputes_any() const noexcept {
  return std::ranges::find(recomputed_, true) != recomputed_.end();
}

}  // namespace zeroth
