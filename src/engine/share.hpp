// SPDX-License-Identifier: Apache-2.0
/// Maps the units and ids of a whole model to those of one pipeline stage.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// A stage's part of a model that every rank describes whole. Programs use the ids of the whole model; the engine uses
/// those of the stage.
class Share {
 public:
  Share() = default;
  /// Takes the units of `stage`.
  Share(model::Description const& whole, PipelineSettings const& settings, int stage);

  /// The stage's part. Call once.
  [[nodiscard]] model::Description take_part() noexcept { return std::move(part_); }
  [[nodiscard]] int stage() const noexcept { return stage_; }
  [[nodiscard]] int stages() const noexcept { return stages_; }
  [[nodiscard]] bool first() const noexcept { return stage_ == 0; }
  [[nodiscard]] bool last() const noexcept { return stage_ + 1 == stages_; }
  /// Chunks of the whole model; those of this stage are `stage`, `stage + stages` and so on.
  [[nodiscard]] int all_chunks() const noexcept { return static_cast<int>(first_.size()); }
  [[nodiscard]] bool is_last(int chunk) const noexcept { return chunk + 1 == all_chunks(); }
  /// The units of a chunk of the stage in forward order, by their ids in the whole model.
  [[nodiscard]] std::span<Unit const> units(int chunk) const noexcept;
  /// Elements per sample that come from the previous chunk, and those that go to the next one; 0 if there is none.
  [[nodiscard]] std::int64_t input_per_sample(int chunk) const noexcept {
    return chunk == all_chunks() ? 0 : inputs_[static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] std::string const& first_unit(int chunk) const noexcept {  ///< The name.
    return unit_names_[first_[static_cast<std::size_t>(chunk)]];
  }
  [[nodiscard]] std::int64_t output_per_sample(int chunk) const noexcept { return input_per_sample(chunk + 1); }

  /// The stage's own id of a unit of the whole model. Throws ContractError, which names `call`, for a unit of another
  /// stage. A unit that the model does not have maps to an invalid id.
  [[nodiscard]] Unit local(Unit unit, char const* call) const;
  /// The stage's own id of a parameter of the whole model.
  [[nodiscard]] ParamId local(ModelId model, ParamId param, char const* call) const;
  [[nodiscard]] bool knows(ModelId model, ParamId param) const noexcept {
    return model == id_ && index_of(param) < params_.size();
  }
  /// Elements of a parameter of the whole model, over all tensor ranks.
  [[nodiscard]] std::int64_t count(ParamId param) const { return params_[param].count; }
  [[nodiscard]] std::string const& name(ParamId param) const { return params_[param].name; }  ///< Its name there.
  /// A parameter of the whole model as every rank knows it, joined over tensor ranks.
  struct Known {
    std::string name;
    std::vector<std::int64_t> shape;
    std::int64_t count;
    bool trainable;
    std::optional<Cut> cut;                     ///< The division among tensor ranks.
    std::vector<model::SharedParam::Use> uses;  ///< In the order of units.
    std::optional<ParamId> local{};             ///< Its id in this stage, even if other stages have it too.
    bool is_fp32 = false;                       ///< ParamOptions::compute.
    /// The stage that saves it in files and counts it.
    [[nodiscard]] int stage() const noexcept { return uses.front().stage; }
    [[nodiscard]] std::vector<int> stages() const;  ///< All stages that have it, ascending.
  };
  [[nodiscard]] ById<ParamId, Known> const& params() const noexcept { return params_; }  ///< By id in the whole model.

 private:
  [[nodiscard]] int stage_of(std::uint32_t unit) const noexcept;
  [[nodiscard]] Known known(model::Description const& whole, model::ParamDescription const& param) const;
  [[nodiscard]] std::uint32_t end_of(int chunk) const noexcept;      ///< In ids of the whole model.
  [[nodiscard]] std::uint32_t part_first(int chunk) const noexcept;  ///< In ids of the stage.
  void take_chunk(model::Description const& whole, int chunk);
  void take_params(model::Description const& whole);
  [[nodiscard]] model::ParamDescription part_of(model::ParamDescription param, ParamId local_id);

  ModelId id_{};
  int stage_ = 0, stages_ = 1;
  model::Description part_;
  std::vector<Unit> units_;
  std::vector<std::uint32_t> first_;         // first unit of each chunk of the whole model
  std::vector<std::int64_t> inputs_;         // input elements of each chunk of the whole model
  std::vector<std::uint32_t> chunk_begins_;  // first unit of each chunk of the stage, in the stage's ids
  std::vector<std::string> unit_names_;      // of the whole model, like params_
  ById<ParamId, Known> params_;
};

}  // namespace zeroth::engine
