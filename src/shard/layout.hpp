// SPDX-License-Identifier: Apache-2.0
/// The location of every element of a model: flat units and their equal slices. Pure arithmetic, the same at every
/// stage.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::shard {

/// Parameters start, and slices are cut, at multiples of this many elements: 256 bytes of the narrowest element type.
inline constexpr std::int64_t alignment_count = 128;

/// A flat unit of a Layout.
enum class FlatId : std::uint32_t {};
/// A gradient that units contribute to. Each parameter has one, with the parameter's id; each further use that is
/// summed apart has one, numbered after them.
enum class GradientId : std::uint32_t {};

/// One parameter inside a part.
struct Placed {
  ParamId param{};
  std::int64_t offset = 0, count = 0;  ///< Elements from the start of the part.
  /// Position in the model: all parameters in order, each whole and starting at a multiple of alignment_count.
  std::int64_t element = 0;
  GradientId gradient{};
  std::int64_t rows = 1;         ///< The first extent of the whole parameter, of which tensor ranks may have parts.
  std::int64_t whole_count = 0;  ///< Elements of the whole parameter.
};

/// Elements [begin, end) of a part.
struct Range {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t count() const noexcept { return end - begin; }
  friend bool operator==(Range const&, Range const&) = default;
};

/// Parameters end to end, then padding, in `world` equal slices of `shard_count` elements. Slice p belongs to place p.
/// Padding is zero in every state. A slice may be all padding; a part without parameters is empty.
struct Part {
  std::vector<Placed> params;
  std::vector<Range> padding;     ///< Between parameters and after the last, ascending.
  std::int64_t used_count = 0;    ///< Elements of parameters alone.
  std::int64_t shard_count = 0;   ///< A multiple of alignment_count.
  std::int64_t padded_count = 0;  ///< world * shard_count
  [[nodiscard]] Range slice(int place) const noexcept { return {place * shard_count, (place + 1) * shard_count}; }
};

/// How tensor ranks hold the parameters of a flat unit.
enum class TensorKind : std::uint8_t {
  cut,     ///< Each rank has its own part. Also used if there is only one tensor rank.
  whole,   ///< All ranks have the same parameters and the same gradients.
  partial  ///< All ranks have the same parameters, and each has one addend of their gradients.
};

/// The unit of gathers and reductions: one unit's own parameters, or one tied parameter. A unit's persistent parameters
/// form a separate flat unit, and so do those of each TensorKind, its matrices if they have their own rule, and those
/// that are fp32 in a model of 16 bits. A flat unit may also hold only the gradient of one unit's use of a tied
/// parameter, if uses are summed apart.
struct FlatUnit {
  std::string name;
  Part trainable, frozen;
  Part apart;                   ///< The gradient of one use, cut like the parameter; the other parts are then empty.
  std::vector<UnitId> users;    ///< Units that use it, ascending, never empty.
  std::vector<UnitId> writers;  ///< Those users whose gradients are accumulated here.
  bool persistent = false;      ///< Every rank holds its parameters whole, whatever the placement of others.
  bool speaks = true;           ///< False if an earlier stage has it too, which saves it and counts its squares.
  TensorKind tensor_kind = TensorKind::cut;
  bool of_one_use = false;  ///< Accumulates the gradient of one use of a tied parameter, that by `writers`.
  bool matrices = false;    ///< Its parameters are matrices, which have their own rule. See update_of().
  bool fp32 = false;        ///< Its parameters are fp32 in a model of 16 bits. See precision_of().
  /// The part that backward writes.
  [[nodiscard]] Part const& gradients() const noexcept { return apart.params.empty() ? trainable : apart; }
  [[nodiscard]] std::int64_t used_count() const noexcept { return trainable.used_count + frozen.used_count; }
  /// Elements of the gathered whole: the trainable part, then the frozen part.
  [[nodiscard]] std::int64_t padded_count() const noexcept { return trainable.padded_count + frozen.padded_count; }
  [[nodiscard]] std::int64_t shard_count() const noexcept { return trainable.shard_count + frozen.shard_count; }
  /// Elements gathered for a use if parameters are sharded.
  [[nodiscard]] std::int64_t gathered_count() const noexcept { return persistent ? 0 : padded_count(); }
};

/// The location of a parameter.
struct Location {
  FlatId flat{};
  bool trainable = true;
  std::int64_t in_part = 0;  ///< Elements from the start of its part.
  std::int64_t offset = 0;   ///< Elements from the start of the gathered whole.
};

/// The place where a unit's gradient of a parameter is accumulated.
struct GradientLocation {
  FlatId flat{};
  std::int64_t in_part = 0;  ///< Elements from the start of FlatUnit::gradients().
  GradientId gradient{};
};

/// A parameter whose uses are summed apart.
struct Tie {
  FlatId flat{};  ///< The parameter's own flat unit, whose gradient becomes the sum.
  struct Use {
    int stage;    ///< Stage of the pipeline.
    FlatId flat;  ///< Holds the gradient of this use, if `stage` is this one.
  };
  std::vector<Use> uses;    ///< In the order of units, in which their gradients are added.
  std::vector<int> stages;  ///< The stages that have the parameter, ascending.
};

/// Settings that decide, with the model, which parameters share a flat unit.
struct LayoutOptions {
  PersistenceSettings persistence{};
  TiedGradients tied = TiedGradients::together;
  bool matrices_apart = false;  ///< Matrices have their own rule.
  bool fp32_apart = false;      ///< The compute dtype has 16 bits.
};
[[nodiscard]] inline LayoutOptions layout_options(Settings const& settings) noexcept {
  return {.persistence = settings.persistence,
          .tied = settings.pipeline.tied_gradients,
          .matrices_apart = settings.matrix_update.has_value(),
          .fp32_apart = settings.precision.compute != Dtype::fp32};
}
/// The optimizer of `flat`'s parameters.
[[nodiscard]] inline optim::Update const& update_of(FlatUnit const& flat, Settings const& settings) noexcept {
  return flat.matrices && settings.matrix_update ? *settings.matrix_update : settings.update;
}

/// The dtypes of `flat`'s states.
[[nodiscard]] inline PrecisionSettings precision_of(FlatUnit const& flat, Settings const& settings) noexcept {
  return flat.fp32 ? PrecisionSettings{} : settings.precision;
}
/// The codec in which `flat`'s trained parameters are gathered. Parameters that are fp32 in a model of 16 bits are to
/// lose nothing.
[[nodiscard]] inline Codec gather_codec_of(FlatUnit const& flat, Settings const& settings) noexcept {
  return flat.fp32 ? Codec::none : settings.gather_codec;
}

/// A model sharded over `world` ranks.
class Layout {
 public:
  /// Throws ContractError if `world` ranks hold more than model::largest_count elements, padding included.
  Layout(model::Description const& description, int world, LayoutOptions const& options = {});

  [[nodiscard]] int world() const noexcept { return world_; }
  [[nodiscard]] int stage() const noexcept { return stage_; }  ///< Stage of the pipeline; 0 without one.
  [[nodiscard]] ById<FlatId, FlatUnit> const& flats() const noexcept { return flats_; }
  /// The flat units that `unit` uses: its own, its persistent ones, then those of tied parameters.
  [[nodiscard]] std::span<FlatId const> flats_of(UnitId unit) const noexcept { return by_unit_[unit]; }
  /// The flat units that take `unit`'s gradients.
  [[nodiscard]] std::span<FlatId const> gradients_of(UnitId unit) const noexcept { return gradients_by_unit_[unit]; }
  [[nodiscard]] GradientLocation gradient(UnitId unit, ParamId param) const noexcept;
  [[nodiscard]] std::size_t gradient_count() const noexcept { return gradient_count_; }
  /// Trainable parameters whose uses are summed apart, in the order of the model.
  [[nodiscard]] std::span<Tie const> ties() const noexcept { return ties_; }
  [[nodiscard]] std::size_t param_count() const noexcept { return by_param_.size(); }
  [[nodiscard]] Location const& location(ParamId param) const noexcept { return by_param_[param]; }
  /// Whether guards of `unit` enclose turns of other units.
  [[nodiscard]] bool stays_open(UnitId unit) const noexcept { return stays_open_[unit] != 0; }
  /// The units for which stays_open() holds.
  [[nodiscard]] std::span<UnitId const> open_units() const noexcept { return open_units_; }
  /// Whether one of open_units() uses `flat`.
  [[nodiscard]] bool stays_open(FlatId flat) const noexcept { return flat_stays_open_[flat] != 0; }
  /// Whether `flat`, once gathered, stays so until the update: it stays open, or a unit that uses it is not to be
  /// resharded after forward.
  [[nodiscard]] bool stays_gathered(FlatId flat) const noexcept { return flat_stays_gathered_[flat] != 0; }
  [[nodiscard]] std::uint32_t unit_count() const noexcept { return static_cast<std::uint32_t>(by_unit_.size()); }
  /// Flat units with gradients, in the order in which backward completes them: an earlier first use in forward
  /// completes later.
  [[nodiscard]] std::span<FlatId const> completion_order() const noexcept { return completion_order_; }
  /// Flat units with trainable parameters, by their first use in forward.
  [[nodiscard]] std::span<FlatId const> update_order() const noexcept { return update_order_; }

 private:
  void place_params(model::Description const& description, LayoutOptions const& options);
  void sum_ties_apart(model::Description const& description);
  void divide(model::Description const& description, FlatId flat, Placed placed, model::SharedParam const* shared);
  void set_orders();
  void note_what_stays(model::Description const& description);

  int world_, stage_;
  ById<FlatId, FlatUnit> flats_;
  ById<UnitId, std::vector<FlatId>> by_unit_, gradients_by_unit_;
  std::vector<Tie> ties_;
  std::size_t gradient_count_;
  ById<UnitId, char> stays_open_;
  ById<FlatId, char> flat_stays_open_, flat_stays_gathered_;
  std::vector<UnitId> open_units_;
  ById<ParamId, Location> by_param_;
  std::vector<FlatId> completion_order_, update_order_;
};

/// The first element of each parameter in a whole model: see Placed::element.
[[nodiscard]] ById<ParamId, std::int64_t> elements_of(model::Description const& description);

/// The learning rate and weight decay factors of elements `range` of a part, relative to range.begin. Padding is in no
/// segment; a parameter that is cut has a segment for each of its runs. If `trust_ratios`, by parameter, is not null,
/// each segment has the address of its parameter's ratio.
[[nodiscard]] std::vector<optim::Segment> segments(model::Description const& description, Part const& part, Range range,
                                                   float const* trust_ratios = nullptr);

}  // namespace zeroth::shard
