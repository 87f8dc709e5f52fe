// SPDX-License-Identifier: Apache-2.0
/// The location of a mesh's ranks on the nodes.
#pragma once
#include <array>
#include <cstddef>

#include "zeroth/simulate/simulate.hpp"

namespace zeroth::simulate {

/// A seat is a place for a rank. Seats are numbered through all nodes; each node has ranks_per_node consecutive ones.
class Seats {
 public:
  Seats() = default;  ///< Each rank has the seat of its own number.
  /// `sizes` are the numbers of ranks along each axis, by MeshAxis. Ranks along nearness[0] have neighbouring seats.
  /// Throws ContractError if `nearness` has an axis twice.
  Seats(std::array<int, 3> const& sizes, Nearness const& nearness);
  /// The seat of `rank`, as Mesh numbers ranks.
  [[nodiscard]] int of(int rank) const noexcept;

 private:
  std::array<int, 3> sizes_{1, 1, 1}, strides_{1, 1, 1};  // by MeshAxis
};

}  // namespace zeroth::simulate
