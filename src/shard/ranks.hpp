// SPDX-License-Identifier: Apache-2.0
/// Among whom states move.
#pragma once
#include <array>

#include "shard/placement.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// On which stream something moves, with communicators of its own.
enum class Lane : std::uint8_t { gather, reduce };

/// Communicators of one lane, in order of places: one for each set of axes over which something moves there.
class Ranks {
 public:
  /// The sets, in the order in which all ranks go through them.
  static constexpr std::array in_order{all_axes, group_axes, replica_axes};

  Ranks() = default;
  explicit Ranks(comm::Communicator* all) noexcept { set(all_axes, all); }
  void set(Axes axes, comm::Communicator* communicator) noexcept { over_[axes.index()] = communicator; }
  /// Null where nothing moves over them.
  [[nodiscard]] comm::Communicator* over(Axes axes) const noexcept { return over_[axes.index()]; }
  /// The ranks for whom slices are cut.
  [[nodiscard]] comm::Communicator* all() const noexcept { return over(all_axes); }

 private:
  std::array<comm::Communicator*, Axes::sets> over_{};
};

}  // namespace zeroth::shard
