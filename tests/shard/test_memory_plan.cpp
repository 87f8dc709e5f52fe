// SPDX-License-Identifier: Apache-2.0
/// The plan against the formulas of docs/memory_model.md, and its pieces against each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "device/kernels.hpp"
#include "shard/memory_plan.hpp"
#include "shard/random_model.hpp"
#include "shard/step_memory.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace zeroth::testing {
namespace {

using shard::Layout;
using shard::MemoryPlan;
using shard::Placement;
using shard::Placements;
using shard::PlanRequest;
using shard::SlotCounts;

constexpr Placements stages[] = {
    {Placement::whole, Placement::whole, Placement::whole},
    {Placement::whole, Placement::whole, Placement::shard},
    {Placement::whole, Placement::shard, Placement::shard},
    {Placement::shard, Placement::shard, Placement::shard},
};

struct Case {
  char const* name;
  PrecisionSettings precision;
};
Case const precisions[] = {
    {"fp32", {Dtype::fp32, Dtype::fp32, Dtype::fp32, Dtype::fp32}},
    {"bf16", {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::bf16}},
    {"bf16 accumulated in fp32", {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::fp32}},
    {"bf16 with fp32 gradients", {Dtype::bf16, Dtype::fp32, Dtype::fp32, Dtype::fp32}},
    {"fp16 reduced in fp32", {Dtype::fp16, Dtype::fp16, Dtype::fp32, Dtype::fp32}},
    {"fp32 reduced in bf16", {Dtype::fp32, Dtype::fp32, Dtype::bf16, Dtype::fp32}},
    {"bf16 masters", {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::fp32}},
    {"bf16 masters and moments", {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::bf16}},
};

/// Slots as a schedule might request: two for the class of each flat unit.
SlotCounts some_slots(Layout const& layout, bool trainable_only) {
  ById<shard::FlatId, std::int64_t> counts;
  ById<shard::FlatId, char> fp32;
  for (auto const& flat : layout.flats()) {
    counts.push_back(trainable_only ? flat.trainable.padded_count : flat.padded_count());
    fp32.push_back(flat.fp32 ? 1 : 0);
  }
  auto slots = shard::classify(counts, fp32);
  for (auto& slot_class : slots.classes) {
    slot_class.slots = 2;
  }
  return slots;
}

PlanRequest request_for(Layout const& layout, int stage, PrecisionSettings const& precision, bool several) {
  PlanRequest request;
  request.placements = stages[stage];
  request.places = {layout.world(), layout.world()};
  request.settings.precision = precision;
  request.several_reductions = several;
  if (request.placements.parameters == Placement::shard) {
    request.parameter_slots = some_slots(layout, false);
  }
  if (request.placements.gradients == Placement::shard) {
    request.gradient_slots = some_slots(layout, true);
  }
  request.largest_bucket_count = 1280;
  request.comm_staging_bytes = 1000;
  return request;
}

/// The formulas of docs/memory_model.md.
MemoryBytes by_the_book(Layout const& layout, int stage, PrecisionSettings const& precision,
                        PlanRequest const& request) {
  std::int64_t blocks = 0;
  std::int64_t largest = 0;
  auto const W = std::int64_t{layout.world()};
  bool const sums = request.settings.sums_micro_steps;
  bool const one = !request.several_reductions && precision.gradient == precision.reduce &&
                   precision.gradient == precision.accumulate;
  MemoryBytes bytes;
  for (auto const& flat : layout.flats()) {
    blocks += (flat.trainable.shard_count + 127) / 128;
    largest = std::max({largest, flat.trainable.shard_count, flat.frozen.shard_count});
    auto const dtypes = flat.fp32 ? precisions[0].precision : precision;
    auto const P = flat.trainable.padded_count;
    auto const F = flat.frozen.padded_count;
    auto const c = bytes_of(dtypes.compute);
    auto const g = bytes_of(dtypes.gradient);
    auto const a = bytes_of(dtypes.accumulate);
    bytes.parameters += stage == 3 && !flat.persistent ? c * (P + F) / W : c * (P + F);
    switch (stage) {
      case 0: bytes.gradients += sums ? g * P + 4 * P : one ? g * P : g * P + a * P; break;
      case 1: bytes.gradients += sums ? g * P + 4 * P : one ? g * P : g * P + a * P / W; break;
      default: bytes.gradients += sums ? 4 * P : a * P / W;
    }
    auto const k = optim::state_count(shard::update_of(flat, request.settings).rule);
    auto const optimizer = P * (dtypes.states == Dtype::bf16                                    ? 2 * k
                                : dtypes.compute == Dtype::fp32 || dtypes.master == Dtype::bf16 ? 4 * k
                                                                                                : 4 + 4 * k);
    bytes.optimizer += stage == 0 ? optimizer : optimizer / W;
  }
  auto const rounded = [](std::int64_t count) { return (count + 255) / 256 * 256; };
  bytes.slots = request.parameter_slots.total_bytes(bytes_of(precision.compute)) +
                request.gradient_slots.total_bytes(bytes_of(precision.gradient));
  bytes.scratch = rounded(4 * blocks) + rounded(sizeof(shard::StepMemory)) + rounded(1000) +
                  rounded(std::min(4 * largest, std::int64_t{1} << 20U));
  if ((sums ? Dtype::fp32 : precision.gradient) != precision.reduce) {
    bytes.scratch += 1280 * bytes_of(precision.reduce);
  }
  return bytes;
}

struct Piece {
  std::int64_t begin, end;
};

/// Whether the pieces are disjoint, aligned to 256 bytes, and inside [0, bytes), and cover it except for `slack` bytes.
bool fill_exactly(std::vector<Piece> pieces, std::int64_t bytes, std::int64_t slack) {
  std::erase_if(pieces, [](Piece const& piece) { return piece.begin == piece.end; });
  std::ranges::sort(pieces, {}, &Piece::begin);
  std::int64_t end = 0;
  std::int64_t used = 0;
  for (auto const& piece : pieces) {
    if (piece.begin < end || piece.begin % 256 != 0) {
      return false;
    }
    end = piece.end;
    used += piece.end - piece.begin;
  }
  return end <= bytes && bytes - used <= slack;
}

bool states_are_apart(Layout const& layout, PlanRequest const& request, MemoryPlan const& plan) {
  std::vector<Piece> parameters;
  std::vector<Piece> gradients;
  std::vector<Piece> optimizer;
  std::vector<Piece> sums;
  auto const add = [](std::vector<Piece>& pieces, std::int64_t begin, std::int64_t bytes) {
    if (begin >= 0) {
      pieces.push_back({begin, begin + bytes});
    }
  };
  for (auto const f : plan.flats.ids()) {
    auto const& at = plan.flats[f];
    auto const& flat = layout.flats()[f];
    auto const& part = flat.trainable;
    auto const held = [&](shard::Part const& of, Placement placement) {
      return shard::held(of, placement, request.places, layout.world() - 1).count();
    };
    auto const updated = held(part, request.placements.optimizer);
    auto const precision = shard::precision_of(flat, request.settings);
    auto const of_parameters = flat.persistent ? Placement::whole : request.placements.parameters;
    add(parameters, at.parameters,
        (held(part, of_parameters) + held(flat.frozen, of_parameters)) * bytes_of(precision.compute));
    add(optimizer, at.master, 4 * updated);
    for (auto const state : at.states) {
      add(optimizer, state, bytes_of(precision.states) * updated);
    }
    add(gradients, at.gradient, part.padded_count * bytes_of(precision.gradient));
    add(gradients, at.sums, part.padded_count * bytes_of(Dtype::fp32));
    add(gradients, at.reduced, updated * bytes_of(precision.accumulate));
    sums.push_back({at.block_sums, at.block_sums + device::sum_blocks(part.shard_count)});
  }
  bool good = fill_exactly(parameters, plan.bytes.parameters, 0) && fill_exactly(gradients, plan.bytes.gradients, 0) &&
              fill_exactly(optimizer, plan.bytes.optimizer, 0);
  std::int64_t next = 0;
  for (auto const& sum : sums) {
    good = good && sum.begin == next;
    next = sum.end;
  }
  return good && next == plan.block_sum_count;
}

bool scratch_is_apart(PlanRequest const& request, MemoryPlan const& plan) {
  auto const bytes = std::int64_t{sizeof(shard::StepMemory)};
  std::vector<Piece> pieces{{plan.block_sums, plan.block_sums + 4 * plan.block_sum_count},
                            {plan.scalars, plan.scalars + bytes},
                            {plan.comm_staging, plan.comm_staging + plan.comm_staging_bytes},
                            {plan.transfer, plan.transfer + plan.transfer_bytes}};
  if (plan.conversion >= 0) {
    pieces.push_back({plan.conversion,
                      plan.conversion + request.largest_bucket_count * bytes_of(request.settings.precision.reduce)});
  }
  return fill_exactly(pieces, plan.bytes.scratch, 4 * 255);
}

bool slots_are_apart(PlanRequest const& request, MemoryPlan const& plan) {
  auto const parameters = request.parameter_slots.total_bytes(bytes_of(request.settings.precision.compute));
  auto const gradients = request.gradient_slots.total_bytes(bytes_of(request.settings.precision.gradient));
  return fill_exactly({{plan.parameter_slots, plan.parameter_slots + parameters},
                       {plan.gradient_slots, plan.gradient_slots + gradients}},
                      plan.bytes.slots, 0);
}

}  // namespace

TEST_CASE("the plan is what the memory model says, at every stage, dtype and world, and its pieces are apart") {
  auto const rules = all_rules();
  for (unsigned seed = 0; seed < 30; ++seed) {
    auto const model = random_model(seed);
    for (auto const world : worlds) {
      Settings of_rules;
      of_rules.update.rule = rules[seed % rules.size()].rule;
      if (seed % 4 == 1) {
        of_rules.matrix_update = optim::Update{.rule = rules[seed / 4 % rules.size()].rule};
      }
      for (auto const& [name, precision] : precisions) {
        Layout const layout{model.description(),
                            world,
                            {.persistence = {seed % 3 == 0 ? 1000 : 0, seed % 2 == 0 ? 5000 : 1'000'000},
                             .matrices_apart = of_rules.matrix_update.has_value(),
                             .fp32_apart = seed % 5 > 1 && precision.compute != Dtype::fp32}};
        for (int stage = 0; stage <= 3; ++stage) {
          bool const narrow = precision.gradient != Dtype::fp32 && precision.accumulate == Dtype::fp32;
          for (auto const* const when : {"once", "every micro-step", "once, summed up in fp32 before"}) {
            bool const sums = when == std::string_view{"once, summed up in fp32 before"};
            if (sums && !narrow) {
              continue;
            }
            auto request = request_for(layout, stage, precision, when[0] == 'e');
            request.settings.sums_micro_steps = sums;
            request.settings.update = of_rules.update;
            request.settings.matrix_update = of_rules.matrix_update;
            auto const plan = shard::plan_memory(layout, request);
            INFO(fmt::format("model {}, {} ranks, {}, stage {}, reduced {}, {}", seed, world, name, stage, when,
                             rules[seed % rules.size()].name));
            auto const expected = by_the_book(layout, stage, precision, request);
            CHECK(plan.bytes.parameters == expected.parameters);
            CHECK(plan.bytes.gradients == expected.gradients);
            CHECK(plan.bytes.optimizer == expected.optimizer);
            CHECK(plan.bytes.slots == expected.slots);
            CHECK(plan.bytes.scratch == expected.scratch);
            CHECK(states_are_apart(layout, request, plan));
            CHECK(scratch_is_apart(request, plan));
            CHECK(slots_are_apart(request, plan));
          }
        }
      }
    }
  }
}

TEST_CASE("without padding, model states are the bytes per parameter that ZeRO promises") {
  Model model;
  constexpr std::int64_t count = 128 * 64 * 3;
  for (int u = 0; u < 3; ++u) {
    auto const unit = model.unit("u" + std::to_string(u));
    static_cast<void>(model.param(unit, "w" + std::to_string(u), {count}, Constant{0}));
  }
  constexpr std::int64_t P = 3 * count;
  for (auto const world : {1, 2, 4, 64}) {
    Layout const layout{model.description(), world};
    auto const N = std::int64_t{world};
    auto const states = [&](int stage, PrecisionSettings const& precision) {
      auto const bytes = shard::plan_memory(layout, request_for(layout, stage, precision, false)).bytes;
      return bytes.parameters + bytes.gradients + bytes.optimizer;
    };
    INFO(world << " ranks");
    auto const fp32 = precisions[0].precision;
    CHECK(states(0, fp32) == 16 * P);
    CHECK(states(1, fp32) == 8 * P + 8 * P / N);
    CHECK(states(2, fp32) == 4 * P + 12 * P / N);
    CHECK(states(3, fp32) == 16 * P / N);
    auto const bf16 = precisions[1].precision;
    CHECK(states(0, bf16) == 16 * P);
    CHECK(states(1, bf16) == 4 * P + 12 * P / N);
    CHECK(states(2, bf16) == 2 * P + 14 * P / N);
    CHECK(states(3, bf16) == 16 * P / N);
    auto const masters = precisions[6].precision;
    CHECK(states(0, masters) == 12 * P);
    CHECK(states(1, masters) == 4 * P + 8 * P / N);
    CHECK(states(2, masters) == 2 * P + 10 * P / N);
    CHECK(states(3, masters) == 12 * P / N);
    auto const moments = precisions[7].precision;
    CHECK(states(0, moments) == 8 * P);
    CHECK(states(1, moments) == 4 * P + 4 * P / N);
    CHECK(states(2, moments) == 2 * P + 6 * P / N);
    CHECK(states(3, moments) == 8 * P / N);
  }
}

TEST_CASE("padding is what states hold beyond an even share of the model's elements") {
  Model model;
  auto const first = model.unit("first");
  static_cast<void>(model.param(first, "w", {1000}, Constant{0}));  // 1024 of 8 x 128, over 4 ranks 256 each
  static_cast<void>(model.param(first, "b", {3}, Constant{0}));     // from 1024: 4 slices of 384 are 1536 in all
  auto const second = model.unit("second");
  static_cast<void>(model.param(second, "frozen", {9}, Constant{0}, {.trainable = false}));  // 4 slices of 128
  Layout const layout{model.description(), 4};
  auto const bf16 = precisions[2].precision;  // summed in fp32, so in separate memory if gradients are whole
  auto const padding = [&](int stage) {
    return shard::plan_memory(layout, request_for(layout, stage, bf16, true)).padding;
  };
  constexpr std::int64_t whole = 1536 - 1003;
  constexpr std::int64_t shard = 384 - 251;  // 1003 / 4, rounded up
  constexpr std::int64_t frozen_whole = 512 - 9;
  constexpr std::int64_t frozen_shard = 128 - 3;
  CHECK(padding(0) == MemoryBytes{2 * (whole + frozen_whole), (2 + 4) * whole, 12 * whole, 0, 0});
  CHECK(padding(1) == MemoryBytes{2 * (whole + frozen_whole), 2 * whole + 4 * shard, 12 * shard, 0, 0});
  CHECK(padding(2) == MemoryBytes{2 * (whole + frozen_whole), 4 * shard, 12 * shard, 0, 0});
  CHECK(padding(3) == MemoryBytes{2 * (shard + frozen_shard), 4 * shard, 12 * shard, 0, 0});
}

TEST_CASE("what a rank holds of a part is all of it or its slice") {
  Model model;
  auto const unit = model.unit("u");
  static_cast<void>(model.param(unit, "w", {1000}, Constant{0}));
  Layout const layout{model.description(), 3};
  auto const& part = layout.flats().front().trainable;
  CHECK(shard::held(part, Placement::whole, {3, 3}, 2) == shard::Range{0, part.padded_count});
  CHECK(shard::held(part, Placement::shard, {3, 3}, 2) == part.slice(2));
}

TEST_CASE("what a rank holds of a group's is its slice and its replicas', which are neighbours") {
  Model model;
  auto const unit = model.unit("u");
  static_cast<void>(model.param(unit, "w", {2500}, Constant{0}));
  static_cast<void>(model.param(unit, "fixed", {300}, Constant{0}, {.trainable = false}));
  Layout const layout{model.description(), 6};
  auto const& part = layout.flats().front().trainable;
  for (int const size : {2, 3}) {
    shard::Places const places{6, size};
    for (int rank = 0; rank < 6; ++rank) {
      auto const place = places.place_of(rank);
      auto const held = shard::held(part, Placement::group, places, place);
      INFO(fmt::format("rank {} in a group of {}", rank, size));
      CHECK(held.count() * size == part.padded_count);
      CHECK(held.begin == rank % size * held.count());
      CHECK(part.slice(place).begin >= held.begin);
      CHECK(part.slice(place).end <= held.end);
    }
    auto request = request_for(layout, 3, {}, false);
    request.places = places;
    request.placements = {Placement::group, Placement::shard, Placement::shard};
    auto const hpz = shard::plan_memory(layout, request).bytes;
    request.placements = {Placement::group, Placement::group, Placement::group};
    auto const mics = shard::plan_memory(layout, request).bytes;
    auto const all = layout.flats().front().padded_count();
    CHECK(hpz.parameters == 4 * all / size);
    CHECK(hpz.gradients == 4 * part.padded_count / 6);
    CHECK(hpz.optimizer == 8 * part.padded_count / 6);
    CHECK(mics.parameters == hpz.parameters);
    CHECK(mics.gradients == 4 * part.padded_count / size);
    CHECK(mics.optimizer == 8 * part.padded_count / size);
    CHECK(shard::plan_memory(layout, request).padding.optimizer ==
          8 * (part.padded_count / size - (2500 + size - 1) / size));
  }
}

}  // namespace zeroth::testing
