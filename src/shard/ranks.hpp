// SPDX-License-Identifier: Apache-2.0
/// The communicators over which states move.
#pragma once
#include <array>

#include "shard/placement.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// The stream on which something moves, with its own communicators.
enum class Lane : std::uint8_t { gather, reduce };

/// The communicators of one lane, in order of places: one for each set of axes over which something moves there.
class Ranks {
 public:
  /// The sets, in the order in which all ranks go through them.
  static constexpr std::array in_order{all_axes, group_axes, replica_axes};

  Ranks() = default;
  explicit Ranks(comm::Communicator* all) noexcept { set(all_axes, all); }
  void set(Axes axes, comm::Communicator* communicator) noexcept { over_[axes.index()] = communicator; }
  /// Null if nothing moves over `axes`.
  [[nodiscard]] comm::Communicator* over(Axes axes) const noexcept { return over_[axes.index()]; }
  /// The ranks among which slices are cut.
  [[nodiscard]] comm::Communicator* all() const noexcept { return over(all_axes); }

 private:
  std::array<comm::Communicator*, Axes::sets> over_{};
};

}  // namespace zeroth::shard
