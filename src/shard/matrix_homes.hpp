// SPDX-License-Identifier: Apache-2.0
/// Where matrices are made orthogonal: each on one rank, its home. Pure arithmetic, the same on every rank.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "shard/layout.hpp"
#include "shard/memory_plan.hpp"
#include "shard/placement.hpp"

namespace zeroth::shard {

/// A matrix and its home.
struct HomedMatrix {
  FlatId flat{};
  ParamId param{};
  Range elements;                      ///< This tensor rank's part of the matrix, in the flat unit's trainable part.
  std::int64_t rows = 0, columns = 0;  ///< Shape of the whole matrix.
  int parts = 1;                       ///< Number of tensor ranks that divide it. With 1, each has and computes all of
                                       ///< it.
  int home = 0;                        ///< Index along MatrixHomes::axes.
  int tensor_home = 0;                 ///< The tensor rank that joins all parts, if there are several.
  /// Index of the first element among the matrices of the home, on this tensor rank.
  std::int64_t in_home = 0;
  /// Elements from one part to the next when parts are joined.
  [[nodiscard]] std::int64_t stride() const noexcept {
    return (elements.count() + alignment_count - 1) / alignment_count * alignment_count;
  }
};

/// The matrices of a layout, and the memory that a step needs for them.
struct MatrixHomes {
  Axes axes;  ///< The ranks that differ along these share the matrices.
  /// Whether every rank computes the directions of whole matrices, or whole parts. Then homes work in place.
  bool whole = true;
  std::vector<HomedMatrix> matrices;  ///< In the order of the model.
  /// Index of the first element of each flat unit of matrices among the directions that a rank's optimizer computes.
  ById<FlatId, std::int64_t> staged;
  std::int64_t staged_count = 0;     ///< The number of these directions.
  std::int64_t home_count = 0;       ///< Maximum elements of a home.
  std::int64_t joined_count = 0;     ///< Elements of the largest matrix that tensor ranks divide.
  std::int64_t workspace_bytes = 0;  ///< For the largest matrix.
};

/// Whether a step needs whole matrices.
[[nodiscard]] inline bool has_directions(Settings const& settings) noexcept {
  return settings.matrix_update && std::holds_alternative<optim::Muon>(settings.matrix_update->rule);
}

/// The ranks that share matrices: those that share the states of one copy, or all if each has all states.
[[nodiscard]] inline Axes axes_of_homes(PlanRequest const& request) noexcept {
  auto const cut = request.placements.optimizer.cut;
  return cut.empty() ? all_axes : cut;
}

/// Homes are balanced by optim::orthogonal_operations(): the most costly matrix first, each to the home that has the
/// least to do so far. Tensor ranks that divide a matrix share its homes. Empty if the layout has no flat units of
/// matrices. The request must have Settings::matrix_update.
[[nodiscard]] MatrixHomes matrix_homes(Layout const& layout, PlanRequest const& request);

}  // namespace zeroth::shard
