// SPDX-License-Identifier: Apache-2.0
#include "shard/matrix_homes.hpp"

#include <algorithm>
#include <numeric>

#include "device/gpu_matrices.hpp"
#include "shard/memory_plan.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::shard {
namespace {

/// The number of steps does not matter: it is the same for all.
double cost_of(HomedMatrix const& matrix) noexcept {
  return optim::orthogonal_operations({}, matrix.rows, matrix.columns);
}

void choose_homes(std::vector<HomedMatrix>& matrices, int places) {
  std::vector<HomedMatrix*> by_cost;
  for (auto& matrix : matrices) {
    by_cost.push_back(&matrix);
  }
  std::ranges::stable_sort(by_cost, std::ranges::greater{}, [](auto const* matrix) { return cost_of(*matrix); });
  std::vector<double> load(static_cast<std::size_t>(places));
  for (auto* const matrix : by_cost) {
    auto const least = std::ranges::min_element(load);  // the first of several
    matrix->home = static_cast<int>(least - load.begin());
    *least += cost_of(*matrix);
  }
}

}  // namespace

MatrixHomes matrix_homes(Layout const& layout, optim::Muon const& rule, Placement optimizer, Places const& places,
                         bool on_gpu) {
  MatrixHomes homes;
  std::vector<ParamId> params;
  for (auto const flat : layout.flats().ids()) {
    auto const& unit = layout.flats()[flat];
    homes.staged.push_back(homes.staged_count);
    if (!unit.matrices) {
      continue;
    }
    homes.staged_count += held(unit.trainable, optimizer, places, 0).count();
    for (auto const& placed : unit.trainable.params) {
      homes.matrices.push_back({.flat = flat,
                                .elements = {placed.offset, placed.offset + placed.count},
                                .rows = placed.rows,
                                .columns = placed.count / placed.rows});
      params.push_back(placed.param);
    }
  }
  std::vector<std::size_t> order(params.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return params[i]; });
  std::vector<HomedMatrix> in_order;
  std::ranges::transform(order, std::back_inserter(in_order), [&](std::size_t i) { return homes.matrices[i]; });
  homes.matrices = std::move(in_order);
  choose_homes(homes.matrices, places.world());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(places.world()));
  for (auto& matrix : homes.matrices) {
    auto& count = counts[static_cast<std::size_t>(matrix.home)];
    matrix.in_home = count;
    count += (matrix.elements.count() + alignment_count - 1) / alignment_count * alignment_count;
    homes.workspace_bytes =
        std::max(homes.workspace_bytes, on_gpu ? device::gpu_matrix_workspace(matrix.rows, matrix.columns).bytes
                                               : optim::orthogonal_workspace_bytes(rule, matrix.rows, matrix.columns));
  }
  bool const are_whole = optimizer == Placement::whole || places.size(optimizer.cut) == 1;
  homes.home_count = are_whole ? 0 : *std::ranges::max_element(counts);
  return homes;
}

}  // namespace zeroth::shard
