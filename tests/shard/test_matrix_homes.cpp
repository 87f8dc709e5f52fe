// SPDX-License-Identifier: Apache-2.0
/// Homes of matrices: every matrix has one, they are balanced, and the memory for them suffices.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/gpu_matrices.hpp"
#include "shard/matrix_homes.hpp"
#include "shard/random_model.hpp"
#include "support/catch.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::testing {
namespace {

using shard::Layout;
using shard::Placement;

/// A GPT's blocks with their matrices and vectors, and its embedding.
Model gpt(int layers, std::int64_t channels) {
  Model model;
  static_cast<void>(model.param(model.unit("embedding", {.rows_per_sample = 0}), "wte", {5000, channels}, Constant{0}));
  for (int layer = 0; layer < layers; ++layer) {
    auto const unit = model.unit(fmt::format("block {}", layer));
    auto const matrix = [&](char const* name, std::int64_t rows, std::int64_t columns) {
      static_cast<void>(
          model.param(unit, fmt::format("{}.{}", layer, name), {rows, columns}, Constant{0}, {.matrix = true}));
      static_cast<void>(model.param(unit, fmt::format("{}.{}.bias", layer, name), {columns}, Constant{0}));
    };
    matrix("qkv", channels, 3 * channels);
    matrix("out", channels, channels);
    matrix("up", channels, 4 * channels);
    matrix("down", 4 * channels, channels);
  }
  return model;
}

Layout layout_of(Model const& model, int world) { return {model.description(), world, {.matrices_apart = true}}; }

shard::PlanRequest request_of(int world, Placement optimizer) {
  shard::PlanRequest request;
  request.settings.matrix_update = optim::Update{.rule = optim::Muon{}};
  request.placements.optimizer = optimizer;
  request.places = {world, world};
  return request;
}

double cost(shard::HomedMatrix const& matrix) {
  auto const n = static_cast<double>(std::min(matrix.rows, matrix.columns));
  auto const m = static_cast<double>(std::max(matrix.rows, matrix.columns));
  return 15 * n * n * m + 5 * n * n * n;
}

}  // namespace

TEST_CASE("homes of a GPT's matrices are balanced") {
  for (auto const& [layers, channels] : {std::pair{12, 768}, std::pair{24, 1024}, std::pair{48, 1600}}) {
    auto const model = gpt(layers, channels);
    for (int const world : {2, 3, 4, 8, 16, 32, 64}) {
      auto const homes = shard::matrix_homes(layout_of(model, world), request_of(world, Placement::shard));
      std::vector<double> load(static_cast<std::size_t>(world));
      double largest = 0;
      for (auto const& matrix : homes.matrices) {
        load[static_cast<std::size_t>(matrix.home)] += cost(matrix);
        largest = std::max(largest, cost(matrix));
      }
      auto const mean = std::accumulate(load.begin(), load.end(), 0.0) / world;
      INFO(fmt::format("{} layers, {} ranks", layers, world));
      CHECK(homes.matrices.size() == static_cast<std::size_t>(4 * layers));
      CHECK(*std::ranges::max_element(load) <= mean + largest);  // even if there are few matrices
      CHECK((4 * layers < 2 * world || *std::ranges::max_element(load) <= 1.2 * mean));
    }
  }
}

TEST_CASE("every matrix has one home, in the order of the model, and memory there that is its own") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto const model = random_model(seed);
    auto const& d = model.description();
    for (auto const world : {1, 2, 3, 7, 64}) {
      auto const layout = layout_of(model, world);
      for (auto const placement : {Placement::whole, Placement::shard}) {
        auto const homes = shard::matrix_homes(layout, request_of(world, placement));
        auto const on_gpu = shard::matrix_homes(layout, [&] {
          auto request = request_of(world, placement);
          request.on_gpu = true;
          return request;
        }());
        INFO(fmt::format("model {}, {} ranks", seed, world));
        std::vector<ParamId> marked, found;
        for (auto const param : d.params.ids()) {
          if (d.params[param].options.matrix) {
            marked.push_back(param);
          }
        }
        std::vector<std::int64_t> ends(static_cast<std::size_t>(world));
        std::int64_t staged = 0;
        bool good = true;
        for (auto const flat : layout.flats().ids()) {
          good = good && homes.staged[flat] == staged;
          staged += layout.flats()[flat].matrices ? placement == Placement::whole
                                                        ? layout.flats()[flat].trainable.padded_count
                                                        : layout.flats()[flat].trainable.shard_count
                                                  : 0;
        }
        for (auto const& matrix : homes.matrices) {
          auto const& placed = layout.flats()[matrix.flat].trainable.params;
          auto const at = std::ranges::find(placed, matrix.elements.begin, &shard::Placed::offset);
          REQUIRE(at != placed.end());
          found.push_back(at->param);
          auto const& shape = d.params[at->param].shape;
          good = good && shape.size() == 2 && matrix.rows == shape[0] && matrix.columns == shape[1] &&
                 matrix.elements.count() == at->count;
          auto& end = ends.at(static_cast<std::size_t>(matrix.home));
          good = good && matrix.in_home >= end && matrix.in_home % shard::alignment_count == 0;
          end = matrix.in_home + (homes.whole ? 0 : matrix.elements.count());
          good = good && end <= homes.home_count &&
                 homes.workspace_bytes >= optim::orthogonal_workspace_bytes({}, matrix.rows, matrix.columns) &&
                 on_gpu.workspace_bytes >= device::gpu_matrix_workspace({}, matrix.rows, matrix.columns).bytes;
        }
        CHECK(good);
        CHECK(found == marked);
        CHECK(homes.staged_count == staged);
        CHECK(homes.whole == (placement == Placement::whole || world == 1));
      }
    }
  }
}

TEST_CASE("tensor ranks that divide matrices share their homes, evenly, and join each on one of them") {
  for (int const tensor : {2, 4}) {
    Model model{0, {0, tensor}};
    for (int layer = 0; layer < 12; ++layer) {
      auto const unit = model.unit(fmt::format("block {}", layer));
      auto const matrix = [&](char const* name, std::int64_t rows, std::int64_t columns, std::optional<Cut> cut) {
        static_cast<void>(model.param(unit, fmt::format("{}.{}", layer, name), {rows, columns}, Constant{0},
                                      {.cut = std::move(cut), .matrix = true}));
      };
      matrix("up", 64, 256, Cut{.dim = 1});
      matrix("down", 256, 64, Cut{.dim = 0});
      matrix("whole", 64, 64, std::nullopt);
    }
    for (int const world : {1, 2, 3}) {
      auto request = request_of(world, Placement::shard);
      std::vector<std::vector<double>> load;
      std::vector<std::vector<shard::HomedMatrix>> seen;
      for (int index = 0; index < tensor; ++index) {
        request.tensor = {index, tensor};
        auto const homes = shard::matrix_homes(layout_of(model, world), request);
        CHECK(homes.joined_count == 64 * 256);
        auto& own = load.emplace_back(static_cast<std::size_t>(world));
        for (auto const& matrix : homes.matrices) {
          bool const divided = matrix.rows != matrix.columns;
          REQUIRE(matrix.parts == (divided ? tensor : 1));
          REQUIRE(matrix.elements.count() * matrix.parts == matrix.rows * matrix.columns);
          REQUIRE(matrix.tensor_home < matrix.parts);
          bool const computes = !divided || matrix.tensor_home == index;
          own[static_cast<std::size_t>(matrix.home)] += computes ? cost(matrix) : 0;
          auto const& first = seen.empty() ? homes.matrices : seen.front();
          auto const& same = *std::ranges::find(first, matrix.param, &shard::HomedMatrix::param);
          REQUIRE((same.home == matrix.home && same.tensor_home == matrix.tensor_home));
        }
        seen.push_back(homes.matrices);
      }
      double most = 0, sum = 0;
      for (auto const& own : load) {
        most = std::max(most, *std::ranges::max_element(own));
        sum = std::accumulate(own.begin(), own.end(), sum);
      }
      INFO(fmt::format("{} tensor ranks, {} data ranks", tensor, world));
      CHECK(most <= 1.2 * sum / (tensor * world));
    }
  }
}

}  // namespace zeroth::testing
