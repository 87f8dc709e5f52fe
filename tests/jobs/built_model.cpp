// SPDX-License-Identifier: Apache-2.0
#include "jobs/built_model.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "support/noise.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing::jobs {
namespace {

Init init_of(int kind) {
  switch (kind) {
    case 0: return Normal{0.3F};
    case 1: return Constant{0.25F};
    case 2: return Uniform{-1, 1};
    case 3: return PerElement{[](std::int64_t i) { return noise(i, 3); }};
    default:
      return FromMemory{[](std::int64_t first, std::span<float> values) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = 0.5F * noise(first + static_cast<std::int64_t>(i), 7);
        }
      }};
  }
}

}  // namespace

BuiltModel::BuiltModel(Drawn const& drawn, TensorPart part, bool again) : model{drawn.seed, part} {
  struct Made {
    BuiltParam built;
    bool is_trained, is_in_parts;
  };
  std::map<std::string, Made> made;
  for (std::size_t u = 0; u < drawn.units.size(); ++u) {
    auto const& from = drawn.units[u];
    UnitOptions options;
    options.stays_open = from.stays_open;
    options.reshard_after_forward = from.reshards;
    options.input_per_sample = from.input_per_sample;
    if (from.declares_uses) {
      options.uses_per_micro_step = from.uses;
    }
    BuiltUnit built{model.unit(fmt::format("u{}", u), options)};
    auto const use = [&](Made const& what) {
      built.read.push_back(what.built);
      if (what.is_trained && what.is_in_parts) {
        built.trained.insert(built.trained.begin() + static_cast<std::ptrdiff_t>(built.in_parts++), what.built);
      } else if (what.is_trained) {
        built.trained.push_back(what.built);
      }
    };
    for (auto const& param : from.params) {
      auto const& division = again ? param.division_that_goes_on : param.division;
      auto const added =
          model.param(built.unit, param.name, std::span<std::int64_t const>{param.shape}, init_of(param.init),
                      {.trainable = param.trainable,
                       .learning_rate_factor = param.learning_rate_factor,
                       .weight_decay_factor = param.weight_decay_factor,
                       .cut = division.cut,
                       .partial = division.partial,
                       .matrix = param.trainable && param.shape.size() == 2,
                       .compute = param.fp32 ? std::optional{Dtype::fp32} : std::nullopt});
      params.emplace_back(param.name, added);
      Made const what{{added, model.description().params.back().part},
                      param.trainable && param.has_gradient,
                      division.cut || division.partial};
      use(made.insert_or_assign(param.name, what).first->second);
    }
    for (auto const& name : from.tied) {
      model.tie(built.unit, made.at(name).built.param);
      use(made.at(name));
    }
    units.push_back(std::move(built));
  }
}

}  // namespace zeroth::testing::jobs
