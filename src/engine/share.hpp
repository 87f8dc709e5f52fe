// SPDX-License-Identifier: Apache-2.0
/// Which units of a model are a stage's of a pipeline, and which of its ids are which of theirs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// The first unit of each stage. Stages begin with units that may begin one, and are cut so that the stage with the
/// most elements has as few as can be. Throws ConfigError where too few may, ContractError for models that no pipeline
/// takes.
[[nodiscard]] std::vector<std::uint32_t> first_units(model::Description const& whole, int stages);

/// What a stage has of a model that every rank describes whole. Programs use the ids of the whole model; the engine
/// uses those of the stage.
class Share {
 public:
  Share() = default;
  /// The units of `stage`, of `stages`.
  Share(model::Description const& whole, int stage, int stages);

  /// What the stage has. To be taken once.
  [[nodiscard]] model::Description take_part() noexcept { return std::move(part_); }
  [[nodiscard]] int stage() const noexcept { return stage_; }
  [[nodiscard]] int stages() const noexcept { return stages_; }
  [[nodiscard]] bool first() const noexcept { return stage_ == 0; }
  [[nodiscard]] bool last() const noexcept { return stage_ + 1 == stages_; }
  /// The stage's units in the order of forward, by their ids in the whole model.
  [[nodiscard]] std::vector<Unit> const& units() const noexcept { return units_; }
  /// Elements of a sample that come from the stage before, and go to the next one; 0 at the ends.
  [[nodiscard]] std::int64_t input_per_sample() const noexcept { return input_per_sample_; }
  [[nodiscard]] std::int64_t output_per_sample() const noexcept { return output_per_sample_; }

  /// The stage's own id of a unit of the whole model. Throws ContractError, which names `call`, for a unit of another
  /// stage. What is no unit of the model becomes an id that no unit has.
  [[nodiscard]] Unit local(Unit unit, char const* call) const;
  /// The same of a parameter.
  [[nodiscard]] ParamId local(ModelId model, ParamId param, char const* call) const;
  /// The stage that has a parameter, and its id there.
  struct Owned {
    int stage;
    ParamId param;
  };
  [[nodiscard]] Owned owned(ParamId param) const;
  [[nodiscard]] bool knows(ModelId model, ParamId param) const noexcept {
    return model == id_ && index_of(param) < params_.size();
  }
  /// Elements of a parameter of the whole model.
  [[nodiscard]] std::int64_t count(ParamId param) const { return params_[param].count; }
  [[nodiscard]] std::string const& name(ParamId param) const { return params_[param].name; }  ///< Its name there.
  /// What every rank knows of a parameter of the whole model.
  struct Known {
    std::string name;
    std::vector<std::int64_t> shape;
    std::int64_t count;
    bool trainable;
    int stage;      ///< Which has it.
    ParamId local;  ///< Its id there.
  };
  [[nodiscard]] ById<ParamId, Known> const& params() const noexcept { return params_; }  ///< By their ids there.

 private:
  [[nodiscard]] int stage_of(std::uint32_t unit) const noexcept;
  void take_units(model::Description const& whole);

  ModelId id_{};
  int stage_ = 0, stages_ = 1;
  model::Description part_;
  std::vector<Unit> units_;
  std::vector<std::uint32_t> first_;
  std::vector<std::string> unit_names_;  // of the whole model, as all parameters are
  ById<ParamId, Known> params_;
  std::int64_t input_per_sample_ = 0, output_per_sample_ = 0;
};

}  // namespace zeroth::engine
