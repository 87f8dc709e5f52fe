// SPDX-License-Identifier: Apache-2.0
/// The optimizer states on a disk, their tiles and positions: each element is there once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/block_file.hpp"
#include "shard/memory_plan.hpp"
#include "shard/random_model.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace zeroth::testing {
namespace {

using shard::Layout;
using shard::Placement;

shard::PlanRequest request_for(int world, Placement optimizer, double ratio, std::int64_t tile) {
  shard::PlanRequest request;
  request.places = {world, world};
  request.placements.optimizer = optimizer;
  request.offload.ratio = ratio;
  request.offload.tile_count = tile;
  request.offload.tiles_in_memory = 3;
  return request;
}

/// Bytes [begin, end) of a file.
struct Extent {
  std::int64_t begin, end;
};

}  // namespace

TEST_CASE("every element that the optimizer holds is in memory or in one tile, in the order of updates") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto const model = random_model(seed);
    for (int const world : {1, 3}) {
      Layout const layout{model.description(), world};
      for (double const ratio : {0.0, 0.01, 0.37, 0.5, 1.0}) {
        for (std::int64_t const tile :
             {std::int64_t{1}, std::int64_t{2048}, std::int64_t{5000}, std::int64_t{1} << 40U}) {
          auto const placement = seed % 2 == 0 ? Placement::shard : Placement::whole;
          auto const request = request_for(world, placement, ratio, tile);
          auto const tiles = shard::cut_tiles(layout, ById<shard::FlatId, char>(layout.flats().size(), 1), placement,
                                              request.places, request.offload);
          INFO(fmt::format("model {}, {} ranks, ratio {}, tiles of {}", seed, world, ratio, tile));
          std::int64_t all = 0;
          std::int64_t on_disk = 0;
          std::size_t next = 0;
          auto const completion = layout.completion_order();
          for (auto each = completion.rbegin(); each != completion.rend(); ++each) {
            auto const count = shard::held(layout.flats()[*each].trainable, placement, request.places, 0).count();
            auto end = tiles.in_memory[*each];
            REQUIRE(end <= count);
            for (; next < tiles.on_disk.size() && tiles.on_disk[next].flat == *each; ++next) {
              auto const& elements = tiles.on_disk[next].elements;
              REQUIRE(elements.begin == end);
              REQUIRE(elements.begin % shard::tile_alignment_count == 0);
              REQUIRE(elements.count() > 0);
              REQUIRE(elements.count() <= std::max(shard::tile_alignment_count, tile));
              REQUIRE(elements.count() <= tiles.largest_count);
              on_disk += elements.count();
              end = elements.end;
            }
            REQUIRE(end == count);
            all += count;
          }
          REQUIRE(next == tiles.on_disk.size());
          // All requested elements are on the disk, and at most the alignment in addition.
          REQUIRE(static_cast<double>(on_disk) >= std::floor(ratio * static_cast<double>(all)));
          REQUIRE(static_cast<double>(on_disk) <=
                  ratio * static_cast<double>(all) + (ratio == 0 ? 0 : shard::tile_alignment_count));
        }
      }
    }
  }
}

TEST_CASE("states on a disk are apart, in whole blocks, and memory has the rest and the tiles") {
  auto const rules = all_rules();
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto const model = random_model(seed);
    Settings of_rules;
    of_rules.update.rule = rules[seed % rules.size()].rule;
    if (seed % 3 == 1) {
      of_rules.matrix_update = optim::Update{.rule = rules[seed / 3 % rules.size()].rule};
    }
    Layout const layout{model.description(), 2, {.matrices_apart = of_rules.matrix_update.has_value()}};
    for (bool const narrow : {false, true}) {
      for (double const ratio : {0.4, 1.0}) {
        auto request = request_for(2, Placement::shard, ratio, 4096);
        request.settings.update = of_rules.update;
        request.settings.matrix_update = of_rules.matrix_update;
        if (narrow) {
          request.settings.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::fp32};
        }
        auto const with = shard::plan_memory(layout, request);
        request.offload.ratio = 0;
        auto const without = shard::plan_memory(layout, request);
        INFO(fmt::format("model {}, {}, {}, ratio {}", seed, rules[seed % rules.size()].name, narrow, ratio));
        std::vector<Extent> extents;
        std::int64_t elements = 0;
        for (auto const flat : with.flats.ids()) {
          auto const& at = with.flats[flat];
          auto const count = layout.flats()[flat].trainable.shard_count - at.in_memory_count;
          for (std::size_t k = 0; k < at.on_disk.size(); ++k) {
            auto const& rule = shard::update_of(layout.flats()[flat], request.settings).rule;
            bool const kept = k == 0 ? narrow : k <= static_cast<std::size_t>(optim::state_count(rule));
            REQUIRE((at.on_disk[k] >= 0) == (kept && with.disk.bytes > 0));
            if (at.on_disk[k] >= 0 && count > 0) {
              REQUIRE(at.on_disk[k] % block_bytes == 0);
              extents.push_back({at.on_disk[k], at.on_disk[k] + 4 * count});
              elements += count;
            }
          }
        }
        std::ranges::sort(extents, {}, &Extent::begin);
        std::int64_t end = 0;
        for (auto const& extent : extents) {
          REQUIRE(extent.begin >= end);
          REQUIRE(extent.begin - end < block_bytes);
          end = extent.end;
        }
        REQUIRE(with.disk.bytes == whole_blocks(end));
        REQUIRE(with.bytes.optimizer + 4 * elements == without.bytes.optimizer);
        REQUIRE(with.bytes.slots == without.bytes.slots + with.disk.memory_bytes());
        REQUIRE(with.disk.tiles_in_memory <= 3);
        REQUIRE(with.bytes.parameters == without.bytes.parameters);
        REQUIRE(with.bytes.gradients == without.bytes.gradients);
        REQUIRE(with.bytes.scratch == without.bytes.scratch);
      }
    }
  }
}

TEST_CASE("where the host updates, its memory has what comes and goes beside the states, and the device's nothing") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto const model = random_model(seed);
    Layout const layout{model.description(), 2};
    for (bool const narrow : {false, true}) {
      auto request = request_for(2, Placement::shard, 0.7, 4096);
      request.offload.tier = shard::Tier::host;
      if (narrow) {
        request.settings.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::fp32};
      }
      auto const by_device = shard::plan_memory(layout, request);
      request.offload.host_threads = 1;
      auto const by_host = shard::plan_memory(layout, request);
      INFO(fmt::format("model {}, {}", seed, narrow));
      std::int64_t elements = 0;
      std::int64_t largest = 0;
      for (auto const& tile : by_host.disk.tiles) {
        elements += tile.elements.count();
        largest = std::max(largest, tile.elements.count());
      }
      auto const of_gradient = bytes_of(request.settings.precision.accumulate);
      auto const of_parameter = bytes_of(request.settings.precision.compute);
      REQUIRE(by_host.disk.tiles.size() == by_device.disk.tiles.size());
      REQUIRE(by_host.disk.bytes - by_device.disk.bytes ==
              by_host.disk.tiles_in_memory *
                  (whole_blocks(largest * of_gradient) + whole_blocks(largest * of_parameter)));
      REQUIRE(by_host.disk.read_bytes == elements * of_parameter);
      REQUIRE(by_host.disk.written_bytes == elements * (of_gradient + (narrow ? 0 : of_parameter)));
      REQUIRE(by_host.disk.memory_bytes() == 0);
      REQUIRE(by_host.bytes.slots == by_device.bytes.slots - by_device.disk.memory_bytes());
      REQUIRE(by_host.bytes.total() - by_host.bytes.slots == by_device.bytes.total() - by_device.bytes.slots);
    }
  }
}

TEST_CASE("parameters of whole flat units are in memory or on a disk, with each element in one tile, and planned") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto const model = random_model(seed);
    Layout const layout{model.description(), 2};
    for (std::int64_t const in_memory : {0, 3000, 1 << 20}) {
      for (double const ratio : {0.0, 0.4}) {
        auto request = request_for(2, Placement::shard, ratio, 4096);
        request.placements.parameters = Placement::shard;
        request.settings.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::fp32};
        auto const without = shard::plan_memory(layout, request);
        request.offload_parameters.disk.ratio = 1;
        request.offload_parameters.disk.tile_count = 2048;
        request.offload_parameters.disk.tiles_in_memory = 2;
        request.offload_parameters.in_memory_count = in_memory;
        request.offload_parameters.gather_buffers = 3;
        auto const with = shard::plan_memory(layout, request);
        INFO(fmt::format("model {}, {} in memory, ratio {}", seed, in_memory, ratio));
        auto const& disk = with.parameters_disk;
        std::int64_t held = 0;
        std::int64_t on_disk = 0;
        std::int64_t end = 0;
        for (auto const flat : with.flats.ids()) {
          auto const& unit = layout.flats()[flat];
          auto const at = with.flats[flat].parameters_on_disk;
          REQUIRE((at >= 0) == (with.flats[flat].parameters < 0));
          if (at < 0) {
            held += unit.shard_count();
            continue;
          }
          REQUIRE(at == end);
          end = at + whole_blocks(2 * unit.trainable.shard_count) + whole_blocks(2 * unit.frozen.shard_count);
          on_disk += unit.shard_count();
        }
        REQUIRE(held <= in_memory);
        REQUIRE(disk.bytes == end);
        REQUIRE(with.bytes.parameters == without.bytes.parameters - 2 * on_disk);
        REQUIRE(with.bytes.slots == without.bytes.slots + disk.memory_bytes());
        REQUIRE(with.bytes.optimizer == without.bytes.optimizer);
        std::size_t next = 0;
        auto const completion = layout.completion_order();
        for (auto each = completion.rbegin(); each != completion.rend(); ++each) {
          std::int64_t updated = 0;
          for (; next < disk.tiles.size() && disk.tiles[next].flat == *each; ++next) {
            auto const& elements = disk.tiles[next].elements;
            REQUIRE(elements.begin == updated);
            REQUIRE(elements.begin % 2048 == 0);
            REQUIRE(elements.count() <= 2048);
            updated = elements.end;
          }
          REQUIRE(updated ==
                  (with.flats[*each].parameters_on_disk < 0 ? 0 : layout.flats()[*each].trainable.shard_count));
        }
        REQUIRE(next == disk.tiles.size());
      }
    }
  }
}

TEST_CASE("nothing is on a disk where the optimizer keeps nothing beside the parameters") {
  auto const model = random_model(3);
  Layout const layout{model.description(), 2};
  auto request = request_for(2, Placement::shard, 1, 4096);
  request.settings.update.rule = optim::Sgd{};
  auto const plan = shard::plan_memory(layout, request);
  CHECK(plan.disk.bytes == 0);
  CHECK(plan.disk.tiles.empty());
  CHECK(plan.disk.memory_bytes() == 0);
  for (auto const flat : plan.flats.ids()) {
    CHECK(plan.flats[flat].in_memory_count == layout.flats()[flat].trainable.shard_count);
  }
}

}  // namespace zeroth::testing
