// SPDX-License-Identifier: Apache-2.0
/// Stages as values, and the effect of settings on them.
#include <chrono>
#include <limits>

#include "stage/policy.hpp"
#include "stage/schedule.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using shard::Placement;
using shard::Placements;
using stage::placements_for;
using stage::placements_of;

Settings settings_of(int stage, int accumulation, ReduceGradients reduce) {
  Settings settings;
  settings.stage = stage;
  settings.batch.accumulation = accumulation;
  settings.reduce_gradients = reduce;
  return settings;
}

shard::Layout layout_of(std::vector<std::int64_t> const& counts) {
  Model model;
  for (auto const count : counts) {
    auto const name = "u" + std::to_string(model.description().units.size());
    auto const unit = model.unit(name);
    static_cast<void>(model.param(unit, name + ".w", {count}, Constant{0}));
  }
  return shard::Layout{model.description(), 2};
}

}  // namespace

TEST_CASE("each stage shards one state more") {
  CHECK(placements_of(0) == Placements{Placement::whole, Placement::whole, Placement::whole});
  CHECK(placements_of(1) == Placements{Placement::whole, Placement::whole, Placement::shard});
  CHECK(placements_of(2) == Placements{Placement::whole, Placement::shard, Placement::shard});
  CHECK(placements_of(3) == Placements{Placement::shard, Placement::shard, Placement::shard});
  for (int const stage : {-1, 4}) {
    CHECK_THAT(thrown<ContractError>([&] { return placements_of(stage); }),
               Catch::Contains("there is no stage " + std::to_string(stage) + ": stages are 0, 1, 2 and 3"));
  }
}

TEST_CASE("gradients are unsharded if micro-steps are added before they are reduced") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const base = placements_of(stage);
    CHECK(placements_for(settings_of(stage, 1, ReduceGradients::last_micro_step)) == base);
    CHECK(placements_for(settings_of(stage, 4, ReduceGradients::every_micro_step)) == base);
    auto const held = placements_for(settings_of(stage, 4, ReduceGradients::last_micro_step));
    CHECK(held == Placements{base.parameters, Placement::whole, base.optimizer});
  }
}

TEST_CASE("states of groups are sharded within each group, unless that means all ranks or one") {
  auto const in_groups = [](int stage, int size, int count, bool states) {
    auto settings = settings_of(stage, 1, ReduceGradients::every_micro_step);
    settings.groups = {.size = size, .count = count, .cut_parameters = true, .cut_states = states};
    return placements_for(settings);
  };
  CHECK(in_groups(3, 4, 2, false) == Placements{Placement::group, Placement::shard, Placement::shard});
  CHECK(in_groups(3, 4, 2, true) == Placements{Placement::group, Placement::group, Placement::group});
  CHECK(in_groups(2, 4, 2, true) == Placements{Placement::whole, Placement::group, Placement::group});
  CHECK(in_groups(1, 4, 2, true) == Placements{Placement::whole, Placement::whole, Placement::group});
  for (int const stage : {1, 2, 3}) {
    CHECK(in_groups(stage, 8, 1, true) == placements_of(stage));  // one group
    CHECK(in_groups(stage, 1, 8, true) == placements_of(0));      // each rank by itself
  }
  Settings settings;
  settings.groups = {.size = 4, .count = 2, .two_level_sums = true};
  CHECK(stage::sums_by_groups(settings));
  CHECK(stage::places_for(settings).group() == 4);
  CHECK(stage::places_for(settings).world() == 8);
  settings.groups = {.size = 1, .count = 8, .two_level_sums = true};
  CHECK_FALSE(stage::sums_by_groups(settings));  // a single sum
  settings.groups = {.size = 8, .count = 1, .two_level_sums = true};
  CHECK_FALSE(stage::sums_by_groups(settings));
}

TEST_CASE("gradients that are summed in fp32 keep their stage's placement, and buckets need no slots") {
  auto const layout = layout_of({1000, 1000, 1000, 1000});
  for (int stage = 0; stage <= 3; ++stage) {
    auto settings = settings_of(stage, 4, ReduceGradients::last_micro_step);
    settings.sums_micro_steps = true;
    CHECK(placements_for(settings) == placements_of(stage));
    auto const limits = stage::limits_of(layout, settings);
    CHECK((limits.gradient_slots.total_slots() > 0) == (stage >= 2));
    CHECK(limits.bucket_units == std::numeric_limits<int>::max());
  }
}

TEST_CASE("only sharded tensors have slots") {
  auto const layout = layout_of({1000, 1000, 1000});
  for (int stage = 0; stage <= 3; ++stage) {
    auto const limits = stage::limits_of(layout, settings_of(stage, 1, ReduceGradients::every_micro_step));
    CHECK((limits.parameter_slots.total_slots() > 0) == (stage == 3));
    CHECK((limits.gradient_slots.total_slots() > 0) == (stage >= 2));
  }
  auto const held = stage::limits_of(layout, settings_of(3, 2, ReduceGradients::last_micro_step));
  CHECK(held.gradient_slots.total_slots() == 0);
  CHECK(held.parameter_slots.total_slots() > 0);
}

TEST_CASE("a rank's disk timeout is shorter than the other ranks' timeout") {
  Settings settings;
  settings.timeout = std::chrono::milliseconds{1200};
  settings.offload.optimizer = OffloadDevice::nvme;
  settings.offload.parameters = OffloadDevice::nvme;
  CHECK(stage::offload_for(settings, true).storage.timeout == std::chrono::milliseconds{900});
  CHECK(stage::parameter_offload_for(settings).disk.storage.timeout == std::chrono::milliseconds{900});
}

TEST_CASE("a bucket holds at most half of the gradient slots, if there are any") {
  auto const layout = layout_of({1000, 1000, 1000, 1000, 1000, 1000});
  auto settings = settings_of(2, 1, ReduceGradients::every_micro_step);
  settings.reduce_bucket_count = 12345;
  auto const units = [&](int slots) {
    settings.gradient_slots = slots;
    return stage::limits_of(layout, settings).bucket_units;
  };
  CHECK(units(1) == 1);
  CHECK(units(2) == 1);
  CHECK(units(3) == 1);
  CHECK(units(4) == 2);
  CHECK(units(5) == 2);
  CHECK(stage::limits_of(layout, settings).bucket_count == 12345);
  settings.stage = 1;
  CHECK(units(4) == std::numeric_limits<int>::max());
}

TEST_CASE("messages name a turn by its purpose") {
  using stage::PassKind;
  using stage::Phase;
  CHECK(stage::purpose_of({PassKind::training, Phase::forward, 0_unit}) == "forward");
  CHECK(stage::purpose_of({PassKind::training, Phase::backward, 0_unit}) == "backward");
  CHECK(stage::purpose_of({PassKind::evaluation, Phase::forward, 0_unit}) == "evaluation");
}

}  // namespace zeroth::testing
