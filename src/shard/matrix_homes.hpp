// SPDX-License-Identifier: Apache-2.0
/// Where matrices are made orthogonal: each on one rank, its home. Pure arithmetic, the same on every rank.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "shard/layout.hpp"
#include "shard/placement.hpp"
#include "shard/places.hpp"

namespace zeroth::shard {

/// A matrix and its home.
struct HomedMatrix {
  FlatId flat{};
  Range elements;                      ///< Of the flat unit's trainable part.
  std::int64_t rows = 0, columns = 0;  ///< Of the matrix.
  int home = 0;                        ///< A place.
  std::int64_t in_home = 0;            ///< The first element's index among the matrices of this home.
};

/// The matrices of a layout, and the memory that a step needs for them.
struct MatrixHomes {
  std::vector<HomedMatrix> matrices;  ///< In the order of the model.
  /// Index of the first element of each flat unit of matrices among the directions that a rank's optimizer computes.
  ById<FlatId, std::int64_t> staged;
  std::int64_t staged_count = 0;     ///< The number of these directions.
  std::int64_t home_count = 0;       ///< Elements of the matrices of one home, at most; 0: directions are whole anyway.
  std::int64_t workspace_bytes = 0;  ///< For the largest matrix.
  /// Whether every rank computes the directions of whole matrices. Then homes work in place.
  [[nodiscard]] bool whole() const noexcept { return home_count == 0; }
};

/// Whether a step needs whole matrices.
[[nodiscard]] inline bool has_directions(Settings const& settings) noexcept {
  return settings.matrix_update && std::holds_alternative<optim::Muon>(settings.matrix_update->rule);
}

/// Homes are balanced by optim::orthogonal_operations(): the most costly matrix first, each to the home
/// that has the least to do so far. Empty if the layout has no flat units of matrices. `rule` and `on_gpu` decide the
/// workspace.
[[nodiscard]] MatrixHomes matrix_homes(Layout const& layout, optim::Muon const& rule, Placement optimizer,
                                       Places const& places, bool on_gpu = false);

}  // namespace zeroth::shard
