// SPDX-License-Identifier: Apache-2.0
#include "shard/matrix_homes.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "device/gpu_matrices.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::shard {
namespace {

double cost_of(optim::Muon const& rule, HomedMatrix const& matrix) noexcept {
  return optim::orthogonal_operations(rule, matrix.rows, matrix.columns);
}

/// Assigns a home. `load` has the costs so far, by home and then by tensor rank.
void choose_home(HomedMatrix& matrix, double cost, std::vector<double>& load, int tensor_ranks) {
  if (matrix.parts > 1) {
    auto const least = std::ranges::min_element(load);  // the first of several
    auto const at = static_cast<int>(least - load.begin());
    matrix.home = at / tensor_ranks;
    matrix.tensor_home = at % tensor_ranks;
    *least += cost;
    return;
  }
  auto const tensor = static_cast<std::size_t>(tensor_ranks);
  auto const of = [&](std::size_t home) { return std::span{load}.subspan(home * tensor, tensor); };
  std::size_t least = 0;
  for (std::size_t home = 1; home < load.size() / tensor; ++home) {
    if (std::ranges::max(of(home)) < std::ranges::max(of(least))) {
      least = home;
    }
  }
  matrix.home = static_cast<int>(least);
  std::ranges::for_each(of(least), [&](double& each) { each += cost; });
}

void choose_homes(optim::Muon const& rule, std::vector<HomedMatrix>& matrices, int homes, int tensor_ranks) {
  std::vector<HomedMatrix*> by_cost;
  for (auto& matrix : matrices) {
    by_cost.push_back(&matrix);
  }
  std::ranges::stable_sort(by_cost, std::ranges::greater{}, [&](auto const* matrix) { return cost_of(rule, *matrix); });
  std::vector<double> load(static_cast<std::size_t>(homes * tensor_ranks));
  for (auto* const matrix : by_cost) {
    choose_home(*matrix, cost_of(rule, *matrix), load, tensor_ranks);
  }
}

/// Elements that `matrix` occupies in its home on this tensor rank: all parts if it joins them; otherwise one part, or
/// none if directions are computed in place.
std::int64_t count_in_home(HomedMatrix const& matrix, int tensor_rank, bool whole) noexcept {
  bool const joins = matrix.parts > 1 && matrix.tensor_home == tensor_rank;
  return joins ? matrix.parts * matrix.stride() : whole ? 0 : matrix.stride();
}

/// Assigns memory in homes.
void place_in_homes(MatrixHomes& homes, int ranks, TensorPart tensor) {
  for (int rank = 0; rank < tensor.of; ++rank) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks));
    for (auto& matrix : homes.matrices) {
      auto& count = counts[static_cast<std::size_t>(matrix.home)];
      if (rank == tensor.index) {
        matrix.in_home = count;
      }
      count += count_in_home(matrix, rank, homes.whole);
    }
    homes.home_count = std::max(homes.home_count, std::ranges::max(counts));
  }
}

}  // namespace

MatrixHomes matrix_homes(Layout const& layout, PlanRequest const& request) {
  auto const& rule = std::get<optim::Muon>(request.settings.matrix_update->rule);
  auto const optimizer = request.placements.optimizer;
  MatrixHomes homes;
  homes.axes = axes_of_homes(request);
  auto const ranks = request.places.size(homes.axes);
  homes.whole = optimizer == Placement::whole || ranks == 1;
  for (auto const flat : layout.flats().ids()) {
    auto const& unit = layout.flats()[flat];
    homes.staged.push_back(homes.staged_count);
    if (!unit.matrices) {
      continue;
    }
    homes.staged_count += held(unit.trainable, optimizer, request.places, 0).count();
    for (auto const& placed : unit.trainable.params) {
      homes.matrices.push_back({.flat = flat,
                                .param = placed.param,
                                .elements = {placed.offset, placed.offset + placed.count},
                                .rows = placed.rows,
                                .columns = placed.whole_count / placed.rows,
                                .parts = unit.tensor_kind == TensorKind::cut ? request.tensor.of : 1});
    }
  }
  std::ranges::sort(homes.matrices, {}, &HomedMatrix::param);
  choose_homes(rule, homes.matrices, ranks, request.tensor.of);
  place_in_homes(homes, ranks, request.tensor);
  for (auto const& matrix : homes.matrices) {
    homes.joined_count = std::max(homes.joined_count, matrix.parts > 1 ? matrix.rows * matrix.columns : 0);
    homes.workspace_bytes =
        std::max(homes.workspace_bytes,
                 request.on_gpu ? device::gpu_matrix_workspace(rule.method, matrix.rows, matrix.columns).bytes
                                : optim::orthogonal_workspace_bytes(rule, matrix.rows, matrix.columns));
  }
  homes.joined_count = (homes.joined_count + alignment_count - 1) / alignment_count * alignment_count;
  return homes;
}

}  // namespace zeroth::shard
