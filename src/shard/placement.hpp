// SPDX-License-Identifier: Apache-2.0
/// The axes along which ranks differ, and the placement of a state: the axes over which it is sharded.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace zeroth::shard {

/// Data parallelism has two axes. Ranks of a group differ along `shard`. Ranks that hold the same piece of a state that
/// is sharded within groups differ along `replicate`, which has one rank if there is one group.
enum class Axis : std::uint8_t { shard, replicate };
/// All axes. Ranks that differ along the last one have neighbouring places; see Places.
inline constexpr std::array every_axis{Axis::shard, Axis::replicate};

/// A set of axes.
class Axes {
 public:
  static constexpr std::size_t sets = std::size_t{1} << every_axis.size();

  constexpr Axes() noexcept = default;
  constexpr Axes(std::initializer_list<Axis> axes) noexcept {
    for (auto const axis : axes) {
      bits_ |= 1U << static_cast<unsigned>(axis);
    }
  }
  [[nodiscard]] constexpr bool contains(Axis axis) const noexcept {
    return (bits_ >> static_cast<unsigned>(axis) & 1U) != 0;
  }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
  /// Different for each set, below `sets`.
  [[nodiscard]] constexpr std::size_t index() const noexcept { return bits_; }
  /// The axes that are in exactly one of the two sets.
  friend constexpr Axes operator^(Axes a, Axes b) noexcept {
    a.bits_ ^= b.bits_;
    return a;
  }
  friend constexpr bool operator==(Axes, Axes) noexcept = default;

 private:
  unsigned bits_ = 0;
};

/// The sets over which something moves.
inline constexpr Axes all_axes{Axis::shard, Axis::replicate}, group_axes{Axis::shard}, replica_axes{Axis::replicate};

/// The axes over which a state is sharded. With `whole` every rank has all of it; with `group` a rank has its piece
/// within a group, and the group has all of it; with `shard` it has its slice. Each includes the next. With one group,
/// and with groups of one rank, `group` equals one of the others and is not used. With `absent` none of these ranks has
/// any of it, since parameter servers have it.
struct Placement {
  Axes cut;
  bool is_absent = false;
  static Placement const whole, group, shard, absent;
  friend constexpr bool operator==(Placement, Placement) noexcept = default;
};
inline constexpr Placement Placement::whole{};
inline constexpr Placement Placement::group{group_axes};
inline constexpr Placement Placement::shard{all_axes};
inline constexpr Placement Placement::absent{{}, true};

/// All that distinguishes the stages, as a value. The optimizer is sharded at least as much as the parameters.
struct Placements {
  Placement parameters = Placement::whole;
  Placement gradients = Placement::whole;  ///< As backward writes them: kept for every unit, or in slots while in use.
  Placement optimizer = Placement::whole;
  friend bool operator==(Placements const&, Placements const&) = default;
};

}  // namespace zeroth::shard
