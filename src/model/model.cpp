// SPDX-License-Identifier: Apache-2.0
#include "zeroth/model/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string_view>

#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth {
namespace {

ModelId next_id() {
  static std::atomic<std::uint32_t> ids{1};
  return static_cast<ModelId>(ids.fetch_add(1));
}

void check_text(std::string_view what, std::string const& name) {
  ZEROTH_EXPECTS(is_utf8(name),
                 fmt::format("{} name \"{}\" is not UTF-8, as weight and trace files require", what, escaped(name)));
}

std::int64_t count_of(std::string const& name, std::span<std::int64_t const> shape) {
  std::int64_t count = 1;
  for (auto const extent : shape) {
    ZEROTH_EXPECTS(extent > 0, fmt::format("parameter \"{}\" has shape [{}]: every extent must be positive", name,
                                           fmt::join(shape, ", ")));
    ZEROTH_EXPECTS(count <= model::largest_count / extent,
                   fmt::format("parameter \"{}\" of shape [{}] is too large; allowed: up to {} (2^54) elements", name,
                               fmt::join(shape, ", "), model::largest_count));
    count *= extent;
  }
  return count;
}

void check_values(std::string const& name, Init const& init, ParamOptions const& options) {
  auto const* const per_element = std::get_if<PerElement>(&init);
  ZEROTH_EXPECTS(per_element == nullptr || per_element->value_at,
                 fmt::format("parameter \"{}\": its PerElement has no function", name));
  auto const* const from_memory = std::get_if<FromMemory>(&init);
  ZEROTH_EXPECTS(from_memory == nullptr || from_memory->fill,
                 fmt::format("parameter \"{}\": its FromMemory has no function", name));
  auto const check_factor = [&](char const* what, float factor) {
    ZEROTH_EXPECTS(std::isfinite(factor) && factor >= 0,
                   fmt::format("parameter \"{}\": {} is {}, must be 0 or more and finite", name, what, factor));
  };
  ZEROTH_EXPECTS(
      !options.compute || *options.compute == Dtype::fp32,
      fmt::format("parameter \"{}\": ParamOptions::compute is {}; allowed: fp32, or nothing for the engine's "
                  "compute dtype",
                  name, name_of(*options.compute)));
  check_factor("learning_rate_factor", options.learning_rate_factor);
  check_factor("weight_decay_factor", options.weight_decay_factor);
  ZEROTH_EXPECTS(!options.partial || !options.cut,
                 fmt::format("parameter \"{}\" is both cut and partial: tensor ranks sum partial gradients only of "
                             "parameters that each of them holds whole; set one of the two",
                             name));
}

void check_matrix(std::string const& name, std::span<std::int64_t const> shape, ParamOptions const& options) {
  ZEROTH_EXPECTS(!options.matrix || shape.size() == 2,
                 fmt::format("parameter \"{}\" of shape [{}] has ParamOptions::matrix, which is for shapes of 2 "
                             "extents",
                             name, fmt::join(shape, ", ")));
  ZEROTH_EXPECTS(!options.matrix || options.trainable,
                 fmt::format("parameter \"{}\" has ParamOptions::matrix and is frozen; the option is for trainable "
                             "parameters",
                             name));
}

/// Throws if `unit` only looks up the rows of a parameter that is marked as a matrix.
void check_use(model::UnitDescription const& unit, std::string const& name, bool matrix) {
  ZEROTH_EXPECTS(!matrix || unit.rows_per_sample > 0,
                 fmt::format("parameter \"{}\" has ParamOptions::matrix, and unit \"{}\" looks its rows up "
                             "(UnitOptions::rows_per_sample is 0); the option is for parameters that are multiplied "
                             "with",
                             name, unit.name));
}

}  // namespace

Model::Model(std::uint64_t seed, TensorPart part) : state_{std::make_shared<model::Description>()} {
  ZEROTH_EXPECTS(part.of >= 1 && part.index >= 0 && part.index < part.of,
                 fmt::format("a model for tensor rank {} of {}; allowed: ranks from 0 to one less than their number",
                             part.index, part.of));
  state_->id = next_id();
  state_->seed = seed;
  state_->tensor = part;
}

TensorPart Model::tensor_part() const noexcept { return state_->tensor; }

std::span<std::int64_t const> Model::shape_of(ParamId param) const noexcept { return state_->params[param].shape; }

std::int64_t Model::first_row_of(ParamId param) const noexcept {
  auto const& described = state_->params[param];
  if (!described.part || described.options.cut->dim != 0 || described.options.cut->sections.size() > 1) {
    return -1;
  }
  return std::min(state_->tensor.index * described.shape.front(), described.global_shape().front());
}

Unit Model::unit_at(std::uint32_t index) const {
  ZEROTH_EXPECTS(index < state_->units.size(),
                 fmt::format("unit_at({}) of a model of {} units", index, state_->units.size()));
  return Unit{state_->id, static_cast<UnitId>(index)};
}

AnyParam Model::param_at(std::uint32_t index) const {
  ZEROTH_EXPECTS(index < state_->params.size(),
                 fmt::format("param_at({}) of a model of {} parameters", index, state_->params.size()));
  auto const id = static_cast<ParamId>(index);
  auto const& param = state_->params[id];
  return {state_->id, id, param.shape, param.global_shape()};
}

std::int64_t Model::parameter_count() const noexcept { return state_->count; }

Unit Model::unit(std::string name, UnitOptions const& options) {
  check_text("unit", name);
  auto const uses = options.uses_per_micro_step;
  ZEROTH_EXPECTS(!uses || *uses >= 1,
                 fmt::format("unit \"{}\": uses_per_micro_step is {}, must be 1 or more", name, *uses));
  ZEROTH_EXPECTS(options.rows_per_sample >= 0,
                 fmt::format("unit \"{}\": rows_per_sample is {}, must be 0 or more", name, options.rows_per_sample));
  ZEROTH_EXPECTS(options.input_per_sample >= 0 && options.input_per_sample <= model::largest_count,
                 fmt::format("unit \"{}\": input_per_sample is {}, must be 0 or more, and at most {}", name,
                             options.input_per_sample, model::largest_count));
  ZEROTH_EXPECTS(options.tensor_sums_per_sample >= 0 && options.tensor_sums_per_sample <= model::largest_count,
                 fmt::format("unit \"{}\": tensor_sums_per_sample is {}, must be 0 or more, and at most {}", name,
                             options.tensor_sums_per_sample, model::largest_count));
  auto const id = state_->units.next_id();
  state_->units.push_back({.name = std::move(name),
                           .uses_per_micro_step = uses.value_or(0),
                           .stays_open = options.stays_open,
                           .reshard_after_forward = options.reshard_after_forward,
                           .rows_per_sample = options.rows_per_sample,
                           .input_per_sample = options.input_per_sample,
                           .tensor_sums_per_sample = options.tensor_sums_per_sample,
                           .params = {},
                           .ties = {}});
  return Unit{state_->id, id};
}

ParamId Model::add(Unit unit, std::string name, std::span<std::int64_t const> shape, Init const& init,
                   ParamOptions const& options) {
  check_text("parameter", name);
  ZEROTH_EXPECTS(unit.model_ == state_->id, fmt::format("parameter \"{}\" is added to a unit of another model", name));
  ZEROTH_EXPECTS(
      !name.empty() && name != "__metadata__",
      fmt::format("parameter name \"{}\" must not be empty or \"__metadata__\", which safetensors reserves", name));
  ZEROTH_EXPECTS(
      !state_->param_named.contains(name),
      fmt::format("parameter name \"{}\" is taken: names must be unique in a model, because files use them", name));
  check_values(name, init, options);
  check_matrix(name, shape, options);
  check_use(state_->units[unit.id_], name, options.matrix);
  auto const id = state_->params.next_id();
  model::ParamDescription param;
  param.name = std::move(name);
  param.shape.assign(shape.begin(), shape.end());
  param.count = count_of(param.name, shape);
  if (options.cut) {
    model::CutPart part{param.name, shape, *options.cut, state_->tensor};
    param.shape = part.shape();
    param.count = count_of(param.name, param.shape);
    if (state_->tensor.of > 1) {
      param.part = std::move(part);
    }
  }
  ZEROTH_EXPECTS(state_->count <= model::largest_count - param.count,
                 fmt::format("parameter \"{}\" of {} elements makes the model too large, which has {} without it; "
                             "allowed: up to {} (2^54) together",
                             param.name, param.count, state_->count, model::largest_count));
  param.init = init;
  param.options = options;
  param.owner = unit.id_;
  state_->count += param.count;
  state_->param_named.emplace(param.name, id);
  state_->params.push_back(std::move(param));
  state_->units[unit.id_].params.push_back(id);
  return id;
}

void Model::add_use(Unit unit, ModelId model, ParamId param) {
  ZEROTH_EXPECTS(unit.model_ == state_->id && model == state_->id, "tie() mixes units and parameters of two models");
  auto& description = state_->params[param];
  auto& user = state_->units[unit.id_];
  ZEROTH_EXPECTS(description.owner != unit.id_,
                 fmt::format("unit \"{}\" made parameter \"{}\" and uses it already", user.name, description.name));
  ZEROTH_EXPECTS(std::ranges::find(user.ties, param) == user.ties.end(),
                 fmt::format("unit \"{}\" is tied to parameter \"{}\" twice", user.name, description.name));
  check_use(user, description.name, description.options.matrix);
  user.ties.push_back(param);
  description.ties.insert(std::ranges::upper_bound(description.ties, unit.id_), unit.id_);
}

}  // namespace zeroth
