// SPDX-License-Identifier: Apache-2.0
#include "engine/share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "shard/layout.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

/// Units from which a stage may begin, and what comes before them.
struct Begins {
  std::vector<std::uint32_t> units;
  std::vector<std::int64_t> before;  ///< Elements of all earlier units.
  std::int64_t all = 0;
};

Begins begins_of(model::Description const& whole) {
  Begins begins;
  for (auto const unit : whole.units.ids()) {
    if (index_of(unit) == 0 || whole.units[unit].input_per_sample > 0) {
      begins.units.push_back(index_of(unit));
      begins.before.push_back(begins.all);
    }
    for (auto const param : whole.units[unit].params) {
      begins.all += whole.params[param].count;
    }
  }
  return begins;
}

void refuse_models(model::Description const& whole, std::vector<std::uint32_t> const& first) {
  auto const stage_of = [&](UnitId unit) {
    return std::ranges::upper_bound(first, index_of(unit)) - first.begin() - 1;
  };
  for (auto const& unit : whole.units) {
    ZEROTH_EXPECTS(
        !unit.stays_open,
        fmt::format("unit \"{}\" stays open (UnitOptions::stays_open) around others' turns, which a pipeline "
                    "cuts; allowed with zeroth.mesh.pipeline are units that do not",
                    unit.name));
  }
  for (auto const& param : whole.params) {
    for (auto const tie : param.ties) {
      ZEROTH_EXPECTS(
          stage_of(tie) == stage_of(param.owner),
          fmt::format("parameter \"{}\" is of unit \"{}\" in stage {} of the pipeline, and tied by unit "
                      "\"{}\" in stage {}: stages share no parameters; allowed are ties within a stage, or a "
                      "smaller zeroth.mesh.pipeline",
                      param.name, whole.units[param.owner].name, stage_of(param.owner), whole.units[tie].name,
                      stage_of(tie)));
    }
  }
}

}  // namespace

std::vector<std::uint32_t> first_units(model::Description const& whole, int stages) {
  auto const begins = begins_of(whole);
  auto const count = begins.units.size();
  auto const wanted = static_cast<std::size_t>(stages);
  if (count < wanted) {
    throw ConfigError{
        fmt::format("zeroth.mesh.pipeline is {}, and the model has {} that a stage may begin with: its first unit, and "
                    "those that have UnitOptions::input_per_sample; allowed: 1 to {}",
                    stages, count == 1 ? "1 unit" : fmt::format("{} units", count), count)};
  }
  auto const end_of = [&](std::size_t begin) { return begin == count ? begins.all : begins.before[begin]; };
  // least[s][b]: the most elements of a stage, where the last s stages begin with begins.units[b].
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::vector least(wanted + 1, std::vector<std::int64_t>(count + 1, none));
  std::vector next(wanted + 1, std::vector<std::size_t>(count + 1, count));
  least[0][count] = 0;
  for (std::size_t s = 1; s <= wanted; ++s) {
    for (std::size_t begin = 0; begin < count; ++begin) {
      for (auto end = begin + 1; end <= count; ++end) {
        auto const most = std::max(least[s - 1][end], end_of(end) - end_of(begin));
        if (least[s - 1][end] != none && most < least[s][begin]) {
          least[s][begin] = most;
          next[s][begin] = end;
        }
      }
    }
  }
  std::vector<std::uint32_t> first;
  std::size_t at = 0;
  for (auto s = wanted; s > 0; --s) {
    first.push_back(begins.units[at]);
    at = next[s][at];
  }
  refuse_models(whole, first);
  return first;
}

Share::Share(model::Description const& whole, int stage, int stages) : id_{whole.id}, stage_{stage}, stages_{stages} {
  first_ = stages == 1 ? std::vector<std::uint32_t>{0} : first_units(whole, stages);
  for (auto const& unit : whole.units) {
    unit_names_.push_back(unit.name);
  }
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(stages), 0);
  for (auto const& param : whole.params) {
    auto const of = stage_of(index_of(param.owner));
    params_.push_back({param.name, param.shape, param.count, param.options.trainable, of,
                       static_cast<ParamId>(counts[static_cast<std::size_t>(of)]++)});
  }
  if (stages == 1) {
    part_ = whole;
    for (auto const unit : whole.units.ids()) {
      units_.push_back(Unit{id_, unit});
    }
    return;
  }
  take_units(whole);
}

void Share::take_units(model::Description const& whole) {
  auto const first = first_[static_cast<std::size_t>(stage_)];
  auto const end =
      last() ? static_cast<std::uint32_t>(whole.units.size()) : first_[static_cast<std::size_t>(stage_) + 1];
  auto const local = [&](UnitId unit) { return static_cast<UnitId>(index_of(unit) - first); };
  part_.id = whole.id;
  part_.seed = whole.seed;
  part_.is_stage = true;
  for (auto index = first; index < end; ++index) {
    units_.push_back(Unit{id_, static_cast<UnitId>(index)});
    auto unit = whole.units[static_cast<UnitId>(index)];
    for (auto* const params : {&unit.params, &unit.ties}) {
      std::ranges::transform(*params, params->begin(), [&](ParamId param) { return params_[param].local; });
    }
    part_.units.push_back(std::move(unit));
  }
  auto const elements = shard::elements_of(whole);
  for (auto const id : whole.params.ids()) {
    if (params_[id].stage == stage_) {
      auto param = whole.params[id];
      param.owner = local(param.owner);
      std::ranges::transform(param.ties, param.ties.begin(), local);
      part_.count += param.count;
      part_.param_named.emplace(param.name, params_[id].local);
      part_.places.push_back(elements[id]);
      part_.params.push_back(std::move(param));
    }
  }
  input_per_sample_ = this->first() ? 0 : whole.units[static_cast<UnitId>(first)].input_per_sample;
  output_per_sample_ = last() ? 0 : whole.units[static_cast<UnitId>(end)].input_per_sample;
}

int Share::stage_of(std::uint32_t unit) const noexcept {
  return static_cast<int>(std::ranges::upper_bound(first_, unit) - first_.begin()) - 1;
}

Unit Share::local(Unit unit, char const* call) const {
  if (stages_ == 1 || unit.model() != id_) {
    return unit;
  }
  if (unit.index() >= unit_names_.size()) {
    return Unit{id_, static_cast<UnitId>(std::numeric_limits<std::uint32_t>::max())};
  }
  auto const of = stage_of(unit.index());
  ZEROTH_EXPECTS(of == stage_, fmt::format("{} of unit \"{}\", which is of stage {}; this rank is of stage {}, whose "
                                           "units are \"{}\" to \"{}\"",
                                           call, unit_names_[unit.index()], of, stage_,
                                           unit_names_[units_.front().index()], unit_names_[units_.back().index()]));
  return Unit{id_, static_cast<UnitId>(unit.index() - units_.front().index())};
}

Share::Owned Share::owned(ParamId param) const { return {params_[param].stage, params_[param].local}; }

ParamId Share::local(ModelId model, ParamId param, char const* call) const {
  if (stages_ == 1 || model != id_) {
    return param;
  }
  if (index_of(param) >= params_.size()) {
    return static_cast<ParamId>(std::numeric_limits<std::uint32_t>::max());
  }
  auto const [of, local] = owned(param);
  ZEROTH_EXPECTS(of == stage_, fmt::format("{} of parameter \"{}\", which is of stage {}; this rank is of stage {}",
                                           call, params_[param].name, of, stage_));
  return local;
}

}  // namespace zeroth::engine
