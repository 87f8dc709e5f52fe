// SPDX-License-Identifier: Apache-2.0
/// Where the ranks of a mesh are on the nodes.
#pragma once
#include <array>
#include <cstddef>

#include "zeroth/simulate/simulate.hpp"

namespace zeroth::simulate {

/// A seat is a place for a rank, counted through all nodes: a node has ranks_per_node of them, one after the other.
class Seats {
 public:
  Seats() = default;  ///< Each rank has the seat of its own number.
  /// `sizes` are ranks along each axis, by MeshAxis. Along nearness[0] ranks have seats side by side. Throws
  /// ContractError where `nearness` has an axis twice.
  Seats(std::array<int, 3> const& sizes, Nearness const& nearness);
  /// `rank` as Mesh counts it.
  [[nodiscard]] int of(int rank) const noexcept;

 private:
  std::array<int, 3> sizes_{1, 1, 1}, strides_{1, 1, 1};  // by MeshAxis
};

}  // namespace zeroth::simulate
