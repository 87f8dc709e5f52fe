/// What is trained: an ordered list of units of named parameters. No memory, no communication.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "zeroth/core/view.hpp"

namespace zeroth {

namespace model {
struct Description;
}
class Model;
template <Element T>
class Params;
template <Element T, GradientOf<T> G>
class Backward;

/// How a parameter starts. Each rank fills only the elements that it owns, from (seed, name, element index): the start
/// is the same at every stage and world size, and nobody ever holds a whole parameter.
struct Constant {
  float value;
};
struct Normal {
  float stddev;
  float mean = 0;
};
struct Uniform {
  float low, high;
};
struct PerElement {
  std::function<float(std::int64_t)> value_at;
};  ///< Pure function of the row-major index, called from any rank's thread.
using Init = std::variant<Constant, Normal, Uniform, PerElement>;

/// Parameters that are communicated together, say one transformer block. An id: copy it, keep it.
class Unit {
 public:
  /// For the layers below: which model made it, and its place in the order of forward.
  [[nodiscard]] std::uint32_t model() const noexcept { return model_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

 private:
  friend class Model;
  Unit(std::uint32_t model, std::uint32_t index) noexcept : model_{model}, index_{index} {}
  std::uint32_t model_, index_;
};

/// One parameter of D dimensions. An id with a shape: what the hot loop indexes with, instead of a name.
template <std::size_t D>
class Param {
 public:
  [[nodiscard]] Shape<D> const& shape() const noexcept { return shape_; }

 private:
  friend class Model;
  template <Element T>
  friend class Params;
  template <Element T, GradientOf<T> G>
  friend class Backward;
  Param(std::uint32_t model, std::uint32_t index, Shape<D> const& shape) noexcept
      : model_{model}, index_{index}, shape_{shape} {}
  std::uint32_t model_, index_;
  Shape<D> shape_;
};

struct UnitOptions {
  int uses_per_micro_step = 1;  ///< More if the unit is run several times, as a recurrent cell is.
};
struct ParamOptions {
  bool trainable = true;  ///< A frozen parameter has no gradient and no optimizer state, and is saved.
  float learning_rate_factor = 1, weight_decay_factor = 1;  ///< Times the file's; decay 0 for biases and norms.
};

/// An ordered list of units, in the order of forward. Every rank builds the same one; the engine checks.
class Model {
 public:
  explicit Model(std::uint64_t seed = 0);  ///< Of the initialisation.
  /// Appends a unit. `name`, in UTF-8, labels messages; it is no part of a parameter's name. Throws ContractError.
  [[nodiscard]] Unit unit(std::string name, UnitOptions const& options = {});
  /// Adds a parameter to `unit`. `name`, in UTF-8, is global and is what files use, so that regrouping units renames
  /// nothing. Throws ContractError if the name is taken or no UTF-8, an extent is not positive, or the model would have
  /// more than 2^54 elements.
  template <std::size_t D>
  [[nodiscard]] Param<D> param(Unit unit, std::string name, std::int64_t const (&shape)[D], Init const& init,
                               ParamOptions const& options = {}) {
    return {unit.model_, add(unit, std::move(name), shape, init, options), std::to_array(shape)};
  }
  /// `unit` uses `param` too, as a head uses a token embedding. Stored, updated and saved once; gradients of all uses
  /// add up.
  template <std::size_t D>
  void tie(Unit unit, Param<D> const& param) {
    add_use(unit, param.model_, param.index_);
  }
  /// The unit at this place in the order of forward, for programs that walk through a model that they did not write.
  /// Throws ContractError if there is none.
  [[nodiscard]] Unit unit_at(std::uint32_t index) const;
  /// What the layers below read.
  [[nodiscard]] model::Description const& description() const noexcept { return *state_; }

 private:
  std::uint32_t add(Unit unit, std::string name, std::span<std::int64_t const> shape, Init const& init,
                    ParamOptions const& options);
  void add_use(Unit unit, std::uint32_t model, std::uint32_t param);
  std::shared_ptr<model::Description> state_;
};

}  // namespace zeroth
