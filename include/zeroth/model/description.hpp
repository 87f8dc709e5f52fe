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

/// Elements that a model may have: far more than there is memory for, and few enough that no count of their bytes, with
/// all states and buffers, overflows 64 bits.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 54U;

/// One parameter.
struct ParamDescription {
  std::string name;                 ///< Global, UTF-8.
  std::vector<std::int64_t> shape;  ///< The outermost extent first, of what this rank has.
  std::int64_t count = 0;           ///< Elements of that.
  Init init;                        ///< Its start.
  ParamOptions options;             ///< How it is trained.
  UnitId owner{};                   ///< The unit that made it.
  std::vector<UnitId> ties;         ///< Further units that use it, ascending.
  std::optional<CutPart> part;      ///< Of one that tensor ranks cut: which part this rank has.
  /// Of all that tensor ranks have together.
  [[nodiscard]] std::vector<std::int64_t> const& global_shape() const noexcept {
    return part ? part->whole_shape() : shape;
  }
  [[nodiscard]] std::int64_t global_count() const noexcept {
    return part ? part->whole_count() : count;
  }  ///< Likewise.
};

/// One unit.
struct UnitDescription {
  std::string name;                         ///< For messages, UTF-8.
  int uses_per_micro_step = 0;              ///< See UnitOptions; 0: as often as it runs forward.
  bool stays_open = false;                  ///< See UnitOptions.
  std::int64_t rows_per_sample = 1;         ///< See UnitOptions.
  std::int64_t input_per_sample = 0;        ///< See UnitOptions.
  std::int64_t tensor_sums_per_sample = 0;  ///< See UnitOptions.
  std::vector<ParamId> params;              ///< Made here, in order.
  std::vector<ParamId> ties;                ///< Made elsewhere, used here too.
};

/// A parameter that units of several stages of a pipeline use.
struct SharedParam {
  /// A unit that uses it.
  struct Use {
    int stage;         ///< Whose unit it is.
    std::string unit;  ///< Its name.
  };
  ParamId param{};        ///< By the stage's own ids.
  std::vector<Use> uses;  ///< Of all stages, in the order of units. The first one's stage speaks for the parameter.
};

/// What a stage of a pipeline has of a larger model.
struct StageDescription {
  int stage = 0;                            ///< Counted from 0.
  int stages = 1;                           ///< 1: the model is whole.
  std::vector<std::uint32_t> chunks;        ///< The first unit of each chunk, by the stage's own ids.
  std::int64_t most_input_per_sample = 0;   ///< Elements of a sample that come from the chunk before, at most.
  std::int64_t most_output_per_sample = 0;  ///< Elements of a sample that go to the chunk behind, at most.
  std::vector<SharedParam> shared;          ///< Parameters of the stage that others have too, ascending.
};

/// All of a model, or what a stage of a pipeline has of it.
struct Description {
  ModelId id{};                                          ///< Distinguishes models of one process.
  std::uint64_t seed = 0;                                ///< Of the initialisation, and of what passes draw.
  TensorPart tensor;                                     ///< Which part of cut parameters this is.
  ById<UnitId, UnitDescription> units;                   ///< In the order of forward.
  ById<ParamId, ParamDescription> params;                ///< In the order in which they were made.
  std::unordered_map<std::string, ParamId> param_named;  ///< By name.
  std::int64_t count = 0;                                ///< Elements of all parameters, of what this rank has.
  StageDescription stage;                                ///< Of a pipeline, where this is what a stage has.
  /// Where this is a part of a larger model: where in that each parameter begins, in elements, which are counted as
  /// shard::Placed says. Empty: this is all there is.
  ById<ParamId, std::int64_t> places;
};

/// Same units, parameters, shapes, options and seed give the same number, on every machine and tensor rank.
/// Initialisers count by kind and constants; a function by a few of its values. Throws ContractError if one of those is
/// another one when it is asked for again.
[[nodiscard]] ZEROTH_EXPORT std::uint64_t fingerprint(Description const& description);

/// Elements [first, first + values.size()) of the start of what this rank has of `param`. Counter-based (Philox
/// 4x32-10; Salmon et al. 2011): a function of (seed, name, index in the whole parameter) alone; 0 where it has
/// padding.
ZEROTH_EXPORT void initialise(std::uint64_t seed, ParamDescription const& param, std::int64_t first,
                              std::span<float> values);

}  // namespace zeroth::model
