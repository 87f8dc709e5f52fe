// SPDX-License-Identifier: Apache-2.0
#include "engine/share.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "engine/partition.hpp"
#include "shard/layout.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

std::vector<int> Share::Known::stages() const {
  std::set<int> stages;
  for (auto const& use : uses) {
    stages.insert(use.stage);
  }
  return {stages.begin(), stages.end()};
}

Share::Share(model::Description const& whole, PipelineSettings const& settings, int stage)
    : id_{whole.id}, stage_{stage}, stages_{settings.stages} {
  first_ = stages_ == 1 ? std::vector<std::uint32_t>{0} : first_units(whole, settings);
  for (auto const& unit : whole.units) {
    unit_names_.push_back(unit.name);
  }
  std::uint32_t count = 0;
  for (auto const& param : whole.params) {
    params_.push_back(known(whole, param));
    if (std::ranges::find(params_.back().uses, stage_, &model::SharedParam::Use::stage) != params_.back().uses.end()) {
      params_.back().local = static_cast<ParamId>(count++);
    }
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

Share::Known Share::known(model::Description const& whole, model::ParamDescription const& param) const {
  Known known{param.name, param.global_shape(), param.global_count(), param.options.trainable, param.options.cut, {}};
  auto users = param.ties;
  users.insert(std::ranges::upper_bound(users, param.owner), param.owner);
  known.is_fp32 = param.options.compute == Dtype::fp32;
  for (auto const user : users) {
    known.uses.push_back({stage_of(index_of(user)), whole.units[user].name});
  }
  return known;
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
      std::ranges::transform(*params, params->begin(), [&](ParamId param) { return *params_[param].local; });
    }
    part_.units.push_back(std::move(unit));
  }
}

void Share::take_params(model::Description const& whole) {
  auto const elements = shard::elements_of(whole);
  for (auto const id : whole.params.ids()) {
    auto const& known = params_[id];
    if (known.local) {
      part_.count += known.count;
      part_.param_named.emplace(known.name, *known.local);
      part_.places.push_back(elements[id]);
      part_.params.push_back(part_of(whole.params[id], *known.local));
      auto const elsewhere = [this](auto const& use) { return use.stage != stage_; };
      if (std::ranges::any_of(known.uses, elsewhere)) {
        part_.stage.shared.push_back({*known.local, known.uses});
      }
    }
  }
}

/// Describes a parameter as the units of this stage use it. If its own unit is in another stage, its first user here
/// takes that role.
model::ParamDescription Share::part_of(model::ParamDescription param, ParamId local_id) {
  auto const here = [this](UnitId unit) { return stage_of(index_of(unit)) == stage_; };
  auto const id_here = [this](UnitId unit) { return local(Unit{id_, unit}, "").id(); };
  std::erase_if(param.ties, [&](UnitId unit) { return !here(unit); });
  std::ranges::transform(param.ties, param.ties.begin(), id_here);
  if (here(param.owner)) {
    param.owner = id_here(param.owner);
    return param;
  }
  param.owner = param.ties.front();
  param.ties.erase(param.ties.begin());
  auto& owner = part_.units[param.owner];
  std::erase(owner.ties, local_id);
  owner.params.push_back(local_id);
  return param;
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
  ZEROTH_EXPECTS(
      of == stage_,
      fmt::format(
          "{} of unit \"{}\", which belongs to stage {}; this rank is in stage {}, whose units are \"{}\" to \"{}\"",
          call, unit_names_[unit.index()], of, stage_, unit_names_[units_.front().index()],
          unit_names_[units_.back().index()]));
  return Unit{id_, static_cast<UnitId>(part_first(chunk) + unit.index() - first_[static_cast<std::size_t>(chunk)])};
}

std::uint32_t Share::part_first(int chunk) const noexcept {
  return chunk_begins_[static_cast<std::size_t>(chunk / stages_)];
}

ParamId Share::local(ModelId model, ParamId param, char const* call) const {
  if (stages_ == 1 || model != id_) {
    return param;
  }
  if (index_of(param) >= params_.size()) {
    return static_cast<ParamId>(std::numeric_limits<std::uint32_t>::max());
  }
  auto const& known = params_[param];
  auto const told = [&] {
    auto const of = known.stages();
    return fmt::format("{} of parameter \"{}\", which belongs to stage{} {}; this rank is in stage {}", call,
                       known.name, of.size() == 1 ? "" : "s", fmt::join(of, " and "), stage_);
  };
  ZEROTH_EXPECTS(known.local, told());
  return *known.local;
}

}  // namespace zeroth::engine
