// SPDX-License-Identifier: Apache-2.0
/// A model as data.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "zeroth/core/by_id.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::model {

/// Limit on a model's elements: far more than fits in memory, and few enough that no count of their bytes, with all
/// states and buffers, overflows 64 bits.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 54U;

/// One parameter.
struct ParamDescription {
  std::string name;                 ///< Unique in the model; UTF-8.
  std::vector<std::int64_t> shape;  ///< This rank's shape, outermost extent first.
  std::int64_t count = 0;           ///< Elements of `shape`.
  Init init;                        ///< Initial values.
  ParamOptions options;             ///< How it is trained.
  UnitId owner{};                   ///< The unit that owns it.
  std::vector<UnitId> ties;         ///< Other units that use it, ascending.
  std::optional<CutPart> part;      ///< If tensor ranks divide it: this rank's part.
  /// The shape over all tensor ranks.
  [[nodiscard]] std::vector<std::int64_t> const& global_shape() const noexcept {
    return part ? part->whole_shape() : shape;
  }
  [[nodiscard]] std::int64_t global_count() const noexcept {
    return part ? part->whole_count() : count;
  }  ///< The number of its elements.
};

/// One unit.
struct UnitDescription {
  std::string name;                         ///< For messages, UTF-8.
  int uses_per_micro_step = 0;              ///< See UnitOptions; 0: its number of forward runs.
  bool stays_open = false;                  ///< See UnitOptions.
  bool reshard_after_forward = true;        ///< See UnitOptions.
  std::int64_t rows_per_sample = 1;         ///< See UnitOptions.
  std::int64_t input_per_sample = 0;        ///< See UnitOptions.
  std::int64_t tensor_sums_per_sample = 0;  ///< See UnitOptions.
  std::vector<ParamId> params;              ///< Parameters that it owns, in order.
  std::vector<ParamId> ties;                ///< Parameters of other units that it uses.
};

/// A parameter that units of several pipeline stages use.
struct SharedParam {
  /// A unit that uses it.
  struct Use {
    int stage;         ///< The unit's stage.
    std::string unit;  ///< The unit's name.
  };
  ParamId param{};        ///< In the stage's own ids.
  std::vector<Use> uses;  ///< Over all stages, in unit order. The first one's stage represents the parameter.
};

/// A pipeline stage's part of a larger model.
struct StageDescription {
  int stage = 0;                            ///< From 0.
  int stages = 1;                           ///< 1: this is the whole model.
  std::vector<std::uint32_t> chunks;        ///< First unit of each chunk, in the stage's own ids.
  std::int64_t most_input_per_sample = 0;   ///< Max elements per sample received from the previous chunk.
  std::int64_t most_output_per_sample = 0;  ///< Max elements per sample sent to the next chunk.
  std::vector<SharedParam> shared;          ///< Parameters of the stage that other stages have too, ascending.
};

/// A whole model, or a pipeline stage's part of one.
struct Description {
  ModelId id{};                                          ///< Unique among the models of a process.
  std::uint64_t seed = 0;                                ///< Seed of the initialisation, and of random draws in passes.
  TensorPart tensor;                                     ///< The part of divided parameters that this is.
  ById<UnitId, UnitDescription> units;                   ///< In forward order.
  ById<ParamId, ParamDescription> params;                ///< In the order in which they were made.
  std::unordered_map<std::string, ParamId> param_named;  ///< By name.
  std::int64_t count = 0;                                ///< Elements of all parameters that this rank holds.
  StageDescription stage;                                ///< Set if this is a pipeline stage.
  /// If this is a part of a larger model: the first element of each parameter in that model, counted as in
  /// shard::Placed. Empty if this is the whole model.
  ById<ParamId, std::int64_t> places;
};

/// A hash of units, parameters, shapes, options and seed: equal on every machine and tensor rank for equal models.
/// Initialisers count by kind and constants, a function by a few of its values. Throws ContractError if such a function
/// returns a different value when it is called again.
[[nodiscard]] ZEROTH_EXPORT std::uint64_t fingerprint(Description const& description);

/// Computes initial elements [first, first + values.size()) of what this rank holds of `param`. Counter-based (Philox
/// 4x32-10; Salmon et al. 2011): depends only on seed, name, and index in the whole parameter. Padding is 0.
ZEROTH_EXPORT void initialise(std::uint64_t seed, ParamDescription const& param, std::int64_t first,
                              std::span<float> values);

}  // namespace zeroth::model
