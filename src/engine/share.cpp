// SPDX-License-Identifier: Apache-2.0
#include "engine/share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/partition.hpp"
#include "shard/layout.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

Share::Share(model::Description const& whole, PipelineSettings const& settings, int stage)
    : id_{whole.id}, stage_{stage}, stages_{settings.stages} {
  first_ = stages_ == 1 ? std::vector<std::uint32_t>{0} : first_units(whole, settings);
  for (auto const& unit : whole.units) {
    unit_names_.push_back(unit.name);
  }
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(stages_), 0);
  for (auto const& param : whole.params) {
    auto const of = stage_of(index_of(param.owner));
    params_.push_back({param.name, param.global_shape(), param.global_count(), param.options.trainable,
                       param.options.cut, of, static_cast<ParamId>(counts[static_cast<std::size_t>(of)]++)});
  }
  inputs_.assign(first_.size(), 0);
  for (std::size_t chunk = 1; chunk < first_.size(); ++chunk) {
    inputs_[chunk] = whole.units[static_cast<UnitId>(first_[chunk])].input_per_sample;
  }
  if (stages_ == 1) {
    part_ = whole;
    for (auto const unit : whole.units.ids()) {
      units_.push_back(Unit{id_, unit});
    }
    return;
  }
  part_.id = whole.id;
  part_.seed = whole.seed;
  part_.tensor = whole.tensor;
  part_.stage.stage = stage;
  part_.stage.stages = stages_;
  for (int chunk = stage; chunk < all_chunks(); chunk += stages_) {
    take_chunk(whole, chunk);
  }
  take_params(whole);
}

std::uint32_t Share::end_of(int chunk) const noexcept {
  return is_last(chunk) ? static_cast<std::uint32_t>(unit_names_.size()) : first_[static_cast<std::size_t>(chunk) + 1];
}

void Share::take_chunk(model::Description const& whole, int chunk) {
  auto& stage = part_.stage;
  chunk_begins_.push_back(static_cast<std::uint32_t>(part_.units.size()));
  stage.chunks.push_back(chunk_begins_.back());
  stage.most_input_per_sample = std::max(stage.most_input_per_sample, input_per_sample(chunk));
  stage.most_output_per_sample = std::max(stage.most_output_per_sample, output_per_sample(chunk));
  for (auto index = first_[static_cast<std::size_t>(chunk)]; index < end_of(chunk); ++index) {
    units_.push_back(Unit{id_, static_cast<UnitId>(index)});
    auto unit = whole.units[static_cast<UnitId>(index)];
    for (auto* const params : {&unit.params, &unit.ties}) {
      std::ranges::transform(*params, params->begin(), [&](ParamId param) { return params_[param].local; });
    }
    part_.units.push_back(std::move(unit));
  }
}

void Share::take_params(model::Description const& whole) {
  auto const here = [this](UnitId unit) { return local(Unit{id_, unit}, "").id(); };
  auto const elements = shard::elements_of(whole);
  for (auto const id : whole.params.ids()) {
    if (params_[id].stage == stage_) {
      auto param = whole.params[id];
      param.owner = here(param.owner);
      std::ranges::transform(param.ties, param.ties.begin(), here);
      part_.count += param.count;
      part_.param_named.emplace(param.name, params_[id].local);
      part_.places.push_back(elements[id]);
      part_.params.push_back(std::move(param));
    }
  }
}

std::span<Unit const> Share::units(int chunk) const noexcept {
  if (stages_ == 1) {
    return units_;
  }
  auto const first = part_first(chunk);
  auto const count = end_of(chunk) - first_[static_cast<std::size_t>(chunk)];
  return std::span{units_}.subspan(first, count);
}

int Share::stage_of(std::uint32_t unit) const noexcept { return chunk_of(first_, unit) % stages_; }

Unit Share::local(Unit unit, char const* call) const {
  if (stages_ == 1 || unit.model() != id_) {
    return unit;
  }
  if (unit.index() >= unit_names_.size()) {
    return Unit{id_, static_cast<UnitId>(std::numeric_limits<std::uint32_t>::max())};
  }
  auto const chunk = chunk_of(first_, unit.index());
  auto const of = chunk % stages_;
  ZEROTH_EXPECTS(of == stage_, fmt::format("{} of unit \"{}\", which is of stage {}; this rank is of stage {}, whose "
                                           "units are \"{}\" to \"{}\"",
                                           call, unit_names_[unit.index()], of, stage_,
                                           unit_names_[units_.front().index()], unit_names_[units_.back().index()]));
  return Unit{id_, static_cast<UnitId>(part_first(chunk) + unit.index() - first_[static_cast<std::size_t>(chunk)])};
}

std::uint32_t Share::part_first(int chunk) const noexcept {
  return chunk_begins_[static_cast<std::size_t>(chunk / stages_)];
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
