// SPDX-License-Identifier: Apache-2.0
/// What is trained: an ordered list of units of named parameters. No memory, no communication.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "zeroth/core/by_id.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/view.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth {

/// A model, among all of a process.
enum class ModelId : std::uint32_t {};
/// A unit of a model: its place in the order of forward.
enum class UnitId : std::uint32_t {};
/// A parameter of a model: its place in the order in which they were made.
enum class ParamId : std::uint32_t {};

namespace model {
struct Description;
}
namespace engine {
class Share;
}
class AnyBackward;
class AnyWeights;
class AnyEngine;
class AnyParams;
class Model;
class TensorParallel;
template <Element T>
class Params;
template <Element T, GradientOf<T> G>
class Backward;
template <Element G>
class Weights;

/// A start of one value.
struct Constant {
  float value;  ///< Of every element.
};
/// A start drawn from a normal distribution.
struct Normal {
  float stddev;    ///< Standard deviation.
  float mean = 0;  ///< Its middle.
};
/// A start drawn evenly from [low, high).
struct Uniform {
  float low;   ///< Smallest value.
  float high;  ///< Above the largest one.
};
/// A start that the program computes.
struct PerElement {
  std::function<float(std::int64_t)>
      value_at;  ///< Pure function of the row-major index, called from any rank's thread.
};
/// A start from values that the program has. As PerElement, with a call for many elements. The engine keeps no copy of
/// the function once it is built: with the Model it goes, and what it holds on to.
struct FromMemory {
  /// Fills `values` with elements from `first` on, in row-major order. Called from any rank's thread.
  std::function<void(std::int64_t first, std::span<float> values)> fill;
};
/// How a parameter starts. Each rank fills only the elements that it owns, from (seed, name, element index): the start
/// is the same at every stage and world size, and nobody ever holds a whole parameter.
using Init = std::variant<Constant, Normal, Uniform, PerElement, FromMemory>;

/// Parameters that are communicated together, say one transformer block. An id: copy it, keep it.
class Unit {
 public:
  [[nodiscard]] ModelId model() const noexcept { return model_; }  ///< For the layers below: which model made it.
  [[nodiscard]] UnitId id() const noexcept { return id_; }         ///< Likewise: which of its units it is.
  [[nodiscard]] std::uint32_t index() const noexcept { return index_of(id_); }  ///< In the order of forward, from 0.

 private:
  friend class Model;
  friend class engine::Share;
  Unit(ModelId model, UnitId id) noexcept : model_{model}, id_{id} {}
  ModelId model_;
  UnitId id_;
};

/// One parameter of D dimensions. An id with a shape: what the hot loop indexes with, instead of a name.
template <std::size_t D>
class Param {
 public:
  /// As it was given to Model::param(); of a parameter that is cut, what this rank has.
  [[nodiscard]] Shape<D> const& shape() const noexcept { return shape_; }
  [[nodiscard]] Shape<D> const& global_shape() const noexcept { return global_shape_; }  ///< As it was given.

 private:
  friend class AnyParam;
  friend class Model;
  friend class TensorParallel;
  template <Element T>
  friend class Params;
  template <Element T, GradientOf<T> G>
  friend class Backward;
  template <Element G>
  friend class Weights;
  Param(ModelId model, ParamId id, Shape<D> const& shape, Shape<D> const& global_shape, std::int64_t first_row) noexcept
      : model_{model}, id_{id}, shape_{shape}, global_shape_{global_shape}, first_row_{first_row} {}
  ModelId model_;
  ParamId id_;
  Shape<D> shape_, global_shape_;
  std::int64_t first_row_;  // that this rank has; below 0: tensor ranks do not divide rows, or not in one section
};

/// One parameter of as many dimensions as it has at run time, none included. What a program uses that does not know its
/// model when it is compiled: guards and engines take it as they take a Param.
class AnyParam {
 public:
  /// Of a parameter whose number of dimensions is known.
  template <std::size_t D>
  AnyParam(Param<D> const& param)  // NOLINT(google-explicit-constructor): it is one
      : model_{param.model_},
        id_{param.id_},
        shape_(param.shape_.begin(), param.shape_.end()),
        global_shape_(param.global_shape_.begin(), param.global_shape_.end()) {}
  /// As Param's. Empty: one number.
  [[nodiscard]] std::vector<std::int64_t> const& shape() const noexcept { return shape_; }
  [[nodiscard]] std::vector<std::int64_t> const& global_shape() const noexcept {
    return global_shape_;
  }  ///< As Param's.

 private:
  friend class AnyBackward;
  friend class AnyWeights;
  friend class AnyEngine;
  friend class AnyParams;
  friend class Model;
  AnyParam(ModelId model, ParamId id, std::span<std::int64_t const> shape, std::span<std::int64_t const> global_shape)
      : model_{model},
        id_{id},
        shape_(shape.begin(), shape.end()),
        global_shape_(global_shape.begin(), global_shape.end()) {}
  ModelId model_;
  ParamId id_;
  std::vector<std::int64_t> shape_, global_shape_;
};

/// How a unit is used.
struct UnitOptions {
  /// How often the unit is run, as a recurrent cell is: its backward turns. Not given: as often as it ran forward in
  /// this micro-step before report_loss() and before any backward turn, at least once: what runs forward later
  /// recomputes. To be given where ranks skip the unit, unless it is 1.
  std::optional<int> uses_per_micro_step{};
  /// Its guards are open around those of other units, as a root's around its children's. Where parameters or gradients
  /// are sharded it has a slot of its own for that; without, such a guard is refused where slots do not suffice.
  bool stays_open = false;
  /// Rows of a sample that its matrices are multiplied with, as flops_profiler counts: the tokens of a sequence; 0
  /// where they are only looked up. No effect on training.
  std::int64_t rows_per_sample = 1;
  /// Elements of one sample that come from the unit before, in the compute dtype: a stage of a pipeline may begin with
  /// this unit, and is sent as many for each sample. 0: none may. No effect without a pipeline.
  std::int64_t input_per_sample = 0;
  /// Elements of one sample that tensor ranks add up in forward of this unit, in the compute dtype; as many in
  /// backward. For simulations. No effect on training.
  std::int64_t tensor_sums_per_sample = 0;
};
/// How a parameter is trained.
struct ParamOptions {
  bool trainable = true;           ///< A frozen parameter has no gradient and no optimizer state, and is saved.
  float learning_rate_factor = 1;  ///< Times the file's rate.
  float weight_decay_factor = 1;   ///< Times the file's decay; 0 for biases and norms.
  /// What tensor ranks have of it: see there. Not given: every one has it whole, and all have the same.
  std::optional<Cut> cut{};
  /// Of one that tensor ranks have whole: each of them writes a part of its gradient, and the engine adds the parts up.
  /// Otherwise all write the same, which is the gradient.
  bool partial = false;
};

/// An ordered list of units, in the order of forward. Every rank builds the same one; the engine checks.
class ZEROTH_EXPORT Model {
 public:
  /// `seed` is that of the initialisation, and of what passes draw (AnyPass::random()). `part` is Mesh::tensor_part(),
  /// where parameters are cut: those that ParamOptions::cut divides have the shape that this rank has of them. Throws
  /// ContractError for a part that is none.
  explicit Model(std::uint64_t seed = 0, TensorPart part = {});
  /// Appends a unit. `name`, in UTF-8, labels messages; it is no part of a parameter's name. Throws ContractError.
  [[nodiscard]] Unit unit(std::string name, UnitOptions const& options = {});
  /// Adds a parameter to `unit`. `name`, in UTF-8, is global and is what files use, so that regrouping units renames
  /// nothing. Throws ContractError if the name is taken or no UTF-8, an extent is not positive, or the model would have
  /// more than 2^54 elements.
  template <std::size_t D>
  [[nodiscard]] Param<D> param(Unit unit, std::string name, std::int64_t const (&shape)[D], Init const& init,
                               ParamOptions const& options = {}) {
    auto const id = add(unit, std::move(name), shape, init, options);
    Shape<D> of_rank{};
    std::ranges::copy(shape_of(id), of_rank.begin());
    return {unit.model_, id, of_rank, std::to_array(shape), first_row_of(id)};
  }
  /// The same with a shape that is known at run time: `{}` is a single number.
  [[nodiscard]] AnyParam param(Unit unit, std::string name, std::span<std::int64_t const> shape, Init const& init,
                               ParamOptions const& options = {}) {
    auto const id = add(unit, std::move(name), shape, init, options);
    return {unit.model_, id, shape_of(id), shape};
  }
  /// `unit` uses `param` too, as a head uses a token embedding. Stored, updated and saved once; gradients of all uses
  /// add up.
  void tie(Unit unit, AnyParam const& param) { add_use(unit, param.model_, param.id_); }
  /// The unit at this place in the order of forward, for programs that walk through a model that they did not write.
  /// Throws ContractError if there is none.
  [[nodiscard]] Unit unit_at(std::uint32_t index) const;
  [[nodiscard]] AnyParam param_at(std::uint32_t index) const;  ///< The same, in the order in which they were made.
  /// Elements that this rank has of all parameters, frozen ones too.
  [[nodiscard]] std::int64_t parameter_count() const noexcept;
  [[nodiscard]] TensorPart tensor_part() const noexcept;  ///< As it was given.
  /// What the layers below read.
  [[nodiscard]] model::Description const& description() const noexcept { return *state_; }

 private:
  ParamId add(Unit unit, std::string name, std::span<std::int64_t const> shape, Init const& init,
              ParamOptions const& options);
  void add_use(Unit unit, ModelId model, ParamId param);
  [[nodiscard]] std::span<std::int64_t const> shape_of(ParamId param) const noexcept;
  [[nodiscard]] std::int64_t first_row_of(ParamId param) const noexcept;
  std::shared_ptr<model::Description> state_;
};

}  // namespace zeroth
