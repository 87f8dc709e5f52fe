// SPDX-License-Identifier: Apache-2.0
/// A model: an ordered list of units of named parameters. It has no memory and no communication.
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
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/view.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth {

/// Identifies a model in a process.
enum class ModelId : std::uint32_t {};
/// Identifies a unit of a model: its index in forward order.
enum class UnitId : std::uint32_t {};
/// Identifies a parameter of a model: its index in the order of creation.
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

/// Initialises every element to one value.
struct Constant {
  float value;  ///< The value.
};
/// Initialises from a normal distribution.
struct Normal {
  float stddev;    ///< Standard deviation.
  float mean = 0;  ///< Mean.
};
/// Initialises from a uniform distribution over [low, high).
struct Uniform {
  float low;   ///< Smallest value.
  float high;  ///< Above the largest value.
};
/// Initialises each element with a function of the program.
struct PerElement {
  /// A pure function of the row-major index, called from any rank's thread.
  std::function<float(std::int64_t)> value_at;
};
/// Initialises from the program's values, with one call for many elements. The engine drops its copy of the function
/// once it is built; the function and what it captures are freed with the Model.
struct FromMemory {
  /// Fills `values` with the elements from `first` on, in row-major order. Called from any rank's thread.
  std::function<void(std::int64_t first, std::span<float> values)> fill;
};
/// How a parameter is initialised. Each rank computes only its own elements, from (seed, name, element index). So the
/// initial values are the same at every stage and world size, and no rank ever holds a whole parameter.
using Init = std::variant<Constant, Normal, Uniform, PerElement, FromMemory>;

/// A handle to parameters that are communicated together, such as one transformer block (an FSDP unit). Small and
/// copyable.
class Unit {
 public:
  [[nodiscard]] ModelId model() const noexcept { return model_; }  ///< The model that made it. For lower layers.
  [[nodiscard]] UnitId id() const noexcept { return id_; }         ///< Its id in the model. For lower layers.
  [[nodiscard]] std::uint32_t index() const noexcept { return index_of(id_); }  ///< Index in forward order, from 0.

 private:
  friend class Model;
  friend class engine::Share;
  Unit(ModelId model, UnitId id) noexcept : model_{model}, id_{id} {}
  ModelId model_;
  UnitId id_;
};

/// A handle to a parameter of D dimensions: an id with a shape. Hot loops index with it instead of a name.
template <std::size_t D>
class Param {
 public:
  /// The shape given to Model::param(); if the parameter is divided, the shape that this rank holds.
  [[nodiscard]] Shape<D> const& shape() const noexcept { return shape_; }
  /// The shape given to Model::param().
  [[nodiscard]] Shape<D> const& global_shape() const noexcept { return global_shape_; }

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

/// A handle to a parameter whose number of dimensions, which may be 0, is known at run time. Guards and engines accept
/// it like a Param, for programs that do not know their model when they are compiled.
class AnyParam {
 public:
  /// Converts a Param.
  template <std::size_t D>
  AnyParam(Param<D> const& param)  // NOLINT(google-explicit-constructor): it is one
      : model_{param.model_},
        id_{param.id_},
        shape_(param.shape_.begin(), param.shape_.end()),
        global_shape_(param.global_shape_.begin(), param.global_shape_.end()) {}
  /// See Param::shape(). Empty for a single number.
  [[nodiscard]] std::vector<std::int64_t> const& shape() const noexcept { return shape_; }
  [[nodiscard]] std::vector<std::int64_t> const& global_shape() const noexcept {
    return global_shape_;
  }  ///< See Param::global_shape().

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
  /// Number of backward visits per micro-step, for units that run several times, such as a recurrent cell. Default: how
  /// often the unit ran forward in this micro-step before report_loss() and the first backward visit, at least 1; later
  /// forward runs are recomputation. Required if ranks skip the unit, unless it is 1.
  std::optional<int> uses_per_micro_step{};
  /// Whether its guards stay open around those of other units, as a root's around its children's. If parameters or
  /// gradients are sharded, it gets a slot of its own. If this is false, such a guard throws when slots run out.
  bool stays_open = false;
  /// FSDP2's option of this name. False: at stage 3, or with zeroth groups, the unit's parameters stay gathered from
  /// their first use to the update, in slots of their own, instead of being gathered again for backward. It costs their
  /// memory, which the plan has, and saves a gather. No effect if parameters are not sharded.
  bool reshard_after_forward = true;
  /// Rows of a sample that its matrices are multiplied with, for flops_profiler: the tokens of a sequence, or 0 if they
  /// are only looked up. Does not affect training.
  std::int64_t rows_per_sample = 1;
  /// Elements per sample that come from the previous unit, in the compute dtype. A pipeline stage may begin with this
  /// unit, and receives this many per sample. 0: no stage may begin here. No effect without a pipeline.
  std::int64_t input_per_sample = 0;
  /// Elements per sample that tensor ranks sum in forward of this unit, in the compute dtype; backward sums as many.
  /// For simulations. Does not affect training.
  std::int64_t tensor_sums_per_sample = 0;
};
/// How a parameter is trained.
struct ParamOptions {
  bool trainable = true;           ///< A frozen parameter has no gradient and no optimizer state. It is saved.
  float learning_rate_factor = 1;  ///< Multiplies the learning rate.
  float weight_decay_factor = 1;   ///< Multiplies the weight decay; use 0 for biases and norms.
  /// How tensor ranks divide it: see Cut. Default: every tensor rank holds all of it, with the same values.
  std::optional<Cut> cut{};
  /// For a parameter that tensor ranks hold whole: each rank computes a part of its gradient, and the engine sums the
  /// parts. Otherwise all ranks compute the same, full gradient.
  bool partial = false;
  /// Marks a weight matrix, for optimizers that update matrices by a rule of their own; the others ignore it. It needs
  /// two extents, must be trainable, and no unit that uses it may have rows_per_sample 0.
  bool matrix = false;
  /// Dtype::fp32 keeps a parameter in fp32 in a model whose compute dtype has 16 bits, as routers, norms, LoRA factors
  /// and embeddings may need: guards provide it in fp32, its gradient, its sums over ranks and its optimizer states are
  /// fp32, and it is its own master. It is gathered and reduced with the other fp32 parameters of its unit, in a flat
  /// unit of their own. No effect in an fp32 model. Typed code reads it by Params::as(). FSDP2 and Megatron-Core do
  /// this by module.
  std::optional<Dtype> compute{};
};

/// An ordered list of units, in forward order. Every rank builds the same model; the engine checks that.
class ZEROTH_EXPORT Model {
 public:
  /// `seed` is used for the initialisation, and for random draws in passes (AnyPass::random()). `part` is
  /// Mesh::tensor_part(), if tensor ranks divide parameters: those with ParamOptions::cut then have the shape of this
  /// rank's part. Throws ContractError for an invalid part.
  explicit Model(std::uint64_t seed = 0, TensorPart part = {});
  /// Appends a unit. `name`, in UTF-8, labels messages, and is not part of parameter names. Throws ContractError.
  [[nodiscard]] Unit unit(std::string name, UnitOptions const& options = {});
  /// Adds a parameter to `unit`. `name`, in UTF-8, is unique in the model, and files use it, so that regrouping units
  /// renames nothing. Throws ContractError if the name is taken or not UTF-8, if an extent is not positive, or if the
  /// model would exceed 2^54 elements.
  template <std::size_t D>
  [[nodiscard]] Param<D> param(Unit unit, std::string name, std::int64_t const (&shape)[D], Init const& init,
                               ParamOptions const& options = {}) {
    auto const id = add(unit, std::move(name), shape, init, options);
    Shape<D> of_rank{};
    std::ranges::copy(shape_of(id), of_rank.begin());
    return {unit.model_, id, of_rank, std::to_array(shape), first_row_of(id)};
  }
  /// Adds a parameter whose shape is known at run time; `{}` is a single number.
  [[nodiscard]] AnyParam param(Unit unit, std::string name, std::span<std::int64_t const> shape, Init const& init,
                               ParamOptions const& options = {}) {
    auto const id = add(unit, std::move(name), shape, init, options);
    return {unit.model_, id, shape_of(id), shape};
  }
  /// Makes `unit` use `param` as well, as a head uses a token embedding. The parameter is stored, updated and saved
  /// once; the gradients of all its uses are summed.
  void tie(Unit unit, AnyParam const& param) { add_use(unit, param.model_, param.id_); }
  /// The unit at this index in forward order, for programs that walk a model they did not write. Throws ContractError
  /// if there is none.
  [[nodiscard]] Unit unit_at(std::uint32_t index) const;
  /// The parameter at this index in the order of creation.
  [[nodiscard]] AnyParam param_at(std::uint32_t index) const;
  /// Elements of all parameters that this rank holds, including frozen ones.
  [[nodiscard]] std::int64_t parameter_count() const noexcept;
  [[nodiscard]] TensorPart tensor_part() const noexcept;  ///< The part given to the constructor.
  /// For lower layers.
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
