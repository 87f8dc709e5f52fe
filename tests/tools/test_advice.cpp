// SPDX-License-Identifier: Apache-2.0
/// Follows the advice and checks its effect.
#include "advice.hpp"

#include <algorithm>

#include "plan_support.hpp"
#include "support/catch.hpp"

namespace zeroth::tools {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30U;

Advice advice_for(PlanInput const& input, int stage, std::int64_t device_bytes) {
  return advise(input, plan_stages(input), stage, device_bytes);
}
/// Turns "a.b" into {"a": {"b": value}}.
std::string file_with(Saving const& saving) {
  auto const dot = saving.key.find('.');
  return dot == std::string::npos ? "{\"" + saving.key + "\": " + saving.value + "}"
                                  : "{\"" + saving.key.substr(0, dot) + "\": {\"" + saving.key.substr(dot + 1) +
                                        "\": " + saving.value + "}}";
}
std::int64_t total_at(PlanInput input, int stage, int world) {
  input.world = world;
  return plan_of(at_stage(input, stage)).bytes.total();
}

TEST_CASE("The suggested smallest stage fits") {
  auto const input = input_for(equal_units(1'000'000'000), file_of_stage(0, R"(, "bf16": {"enabled": true})"), 8);
  auto const advice = advice_for(input, 0, 5 * gib);
  REQUIRE(advice.smallest_stage == 2);
  CHECK(total_at(input, 2, 8) <= 5 * gib);
  CHECK(total_at(input, 1, 8) > 5 * gib);
  CHECK_FALSE(advice.world_for_stage_3);  // stage 3 fits this world
  REQUIRE(advice.stages.size() == 1);
  CHECK(advice.stages[0].stage == 0);
}

TEST_CASE("The suggested number of ranks for stage 3 is the smallest power of two that fits") {
  auto const input = input_for(equal_units(7'500'000'000), mixed, 12);
  auto const advice = advice_for(input, 0, 4 * gib);
  CHECK_FALSE(advice.smallest_stage);
  REQUIRE(advice.world_for_stage_3);
  auto const world = *advice.world_for_stage_3;
  CHECK((world & (world - 1)) == 0);
  CHECK(world > 12);
  CHECK(total_at(input, 3, world) <= 4 * gib);
  CHECK(total_at(input, 3, world / 2) > 4 * gib);
  CHECK_FALSE(advice.worlds_refused);
  REQUIRE(advice.stages.size() == 2);  // advice for the requested stage, and for stage 3
  CHECK(advice.stages[1].stage == 3);
}

TEST_CASE("Numbers of ranks that the file's batch size rules out are not suggested") {
  auto const input = input_for(equal_units(1'000'000'000), R"({"train_batch_size": 48, "bf16": {"enabled": true}})",
                               3);  // allows worlds up to 16
  auto const advice = advice_for(input, 0, gib);
  CHECK_FALSE(advice.world_for_stage_3);
  CHECK(advice.worlds_refused);
}

TEST_CASE("If slots alone do not fit, no number of ranks is suggested, and the largest unit is named") {
  auto const input = input_for(equal_units(8'000'000'000, 2), mixed, 4);
  auto const advice = advice_for(input, 3, gib);
  CHECK_FALSE(advice.world_for_stage_3);
  CHECK_FALSE(advice.world_with_savings);
  CHECK(plan_of(input).largest_flat_unit == "unit 0");
  CHECK(plan_of(input).largest_flat_unit_count == 4'000'000'000);
}

TEST_CASE("A suggested key saves the bytes that the advice says") {
  auto const config = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
    "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
    "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e8, "reduce_bucket_size": 1e9},
    "zeroth": {"gradient_slots": 6, "gradient_dtype": "fp32"}})";
  auto const input = input_for(equal_units(1'000'000'000), config, 16);
  auto const advice = advice_for(input, 3, gib);
  REQUIRE(advice.stages.size() == 1);
  auto const& [stage, savings, total_with_savings, states, parameters] = advice.stages[0];
  auto const total = plan_of(input).bytes.total();
  std::vector<std::string> keys;
  for (auto const& saving : savings) {
    INFO(saving.key << ": " << saving.value);
    keys.push_back(saving.key);
    CHECK(saving.bytes > 0);
    CHECK(plan_of(changed(input, file_with(saving))).bytes.total() == total - saving.bytes);
  }
  auto const advised = [&](char const* key) { return std::ranges::count(keys, key) == 1; };
  CHECK(advised("zeroth.gradient_slots"));
  CHECK(advised("zero_optimization.stage3_prefetch_bucket_size"));
  CHECK(advised("zeroth.gradient_dtype"));
  CHECK(std::ranges::is_sorted(savings, std::ranges::greater{}, &Saving::bytes));

  auto best = input;
  for (auto const& saving : savings) {
    best = saving.numbers_differ ? best : changed(best, file_with(saving));
  }
  CHECK(plan_of(best).bytes.total() == total_with_savings);
  CHECK(total_with_savings < total);
}

TEST_CASE("Advice to change the reduction dtype or buckets saves the conversion buffer") {
  auto const config = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                          "communication_data_type": "fp32", "zero_optimization": {"reduce_bucket_size": 4e8}})";
  auto const input = input_for(equal_units(1'000'000'000), config, 4);
  auto const advice = advice_for(input, 0, gib);
  auto const total = plan_of(input).bytes.total();
  auto const& savings = advice.stages.front().savings;
  REQUIRE(savings.size() == 2);
  CHECK(savings[0].key == "communication_data_type");
  CHECK(savings[0].numbers_differ);
  CHECK(savings[0].bytes > 4 * 400'000'000LL);  // and the fp32 sums besides the gradients
  CHECK(savings[1].key == "zero_optimization.reduce_bucket_size");
  CHECK_FALSE(savings[1].numbers_differ);
  CHECK(savings[1].bytes > 4 * 360'000'000LL);
  CHECK(advice.stages.front().total_with_savings == total - savings[1].bytes);
}

TEST_CASE("Keys that save memory may suffice with fewer ranks") {
  auto const input = input_for(equal_units(7'500'000'000), mixed, 8);
  auto const device = total_at(input, 3, 1024) - 1;  // at any smaller world the slots of the default keys need too much
  auto const advice = advice_for(input, 3, device);
  REQUIRE(advice.world_with_savings);
  CHECK((!advice.world_for_stage_3 || *advice.world_with_savings < *advice.world_for_stage_3));
  auto best = at_stage(input, 3);
  for (auto const& saving : advice.stages[0].savings) {
    best = saving.numbers_differ ? best : changed(best, file_with(saving));
  }
  CHECK(total_at(best, 3, *advice.world_with_savings) <= device);
  CHECK(total_at(best, 3, *advice.world_with_savings / 2) > device);
}

TEST_CASE("bf16 masters are suggested, then bf16 moments, with what they save") {
  constexpr std::int64_t count = 128 * 64 * 10'000;
  auto const saving_of = [](std::string const& more, char const* key) {
    auto const file = R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1},
                          "bf16": {"enabled": true)" +
                      more + "}}";
    auto const savings = advice_for(input_for(equal_units(count, 8), file, 8), 1, 1).stages.front().savings;
    auto const found = std::ranges::find(savings, key, &Saving::key);
    return found != savings.end() && found->numbers_differ ? found->bytes : 0;
  };
  CHECK(saving_of("", "bf16.bf16_master_weights_and_grads") == 4 * count / 8);
  CHECK(saving_of("", "bf16.bf16_optimizer_states") == 0);  // rejected with fp32 masters
  auto const* const masters = R"(, "bf16_master_weights_and_grads": true)";
  CHECK(saving_of(masters, "bf16.bf16_optimizer_states") == 2 * 2 * count / 8);
}

TEST_CASE("A disk is suggested with the largest tiles that fit, and the plan confirms it") {
  auto const input = input_for(equal_units(1'000'000'000), file_of_stage(3, R"(, "bf16": {"enabled": true})"), 8);
  auto const total = plan_of(at_stage(input, 3)).bytes.total();
  auto const with = [&](std::int64_t tile) {
    return plan_of(changed(at_stage(input, 3), R"({"zero_optimization": {"offload_optimizer": {"device": "nvme",
        "nvme_path": "/nvme"}, "sub_group_size": )" +
                                                   std::to_string(tile) + "}}"));
  };
  auto const advised = [&](std::int64_t device_bytes) {
    return advice_for(input, 3, device_bytes).stages.front().states;
  };
  auto const roomy = advised(total - 1);
  REQUIRE(roomy);
  CHECK(roomy->total == with(roomy->count).bytes.total());
  CHECK(roomy->in_tier == with(roomy->count).disk.bytes);
  CHECK(roomy->total < total);
  auto const tight = advised(with(1 << 20).bytes.total());
  REQUIRE(tight);
  CHECK(tight->count == 1 << 20);
  CHECK(tight->total > with(1 << 18).bytes.total());
  auto const never = advised(1);
  REQUIRE(never);
  CHECK(never->total > 1);
  CHECK(never->count == 1 << 18);
  auto const has_it =
      changed(input, R"({"zero_optimization": {"offload_optimizer": {"device": "nvme", "nvme_path": "."}}})");
  CHECK_FALSE(advice_for(has_it, 3, 1).stages.front().states);
}

TEST_CASE("Parameters on a disk are suggested if states alone do not suffice, and the plan confirms it") {
  auto const input = input_for(equal_units(1'000'000'000), file_of_stage(3, R"(, "bf16": {"enabled": true})"), 8);
  auto const states = plan_of(changed(at_stage(input, 3), R"({"zero_optimization": {"sub_group_size": 262144,
      "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}})"));
  auto const with = [&](PlanInput const& beside, std::int64_t buffer) {
    return plan_of(changed(beside, R"({"zero_optimization": {"offload_param": {"device": "nvme", "nvme_path": "/nvme",
        "max_in_cpu": 0, "buffer_size": )" +
                                       std::to_string(buffer) + "}}}"));
  };
  auto const advised = [&](PlanInput const& asked, std::int64_t device_bytes) {
    return advice_for(asked, 3, device_bytes).stages.front().parameters;
  };
  CHECK_FALSE(advised(input, states.bytes.total()));
  auto const on_disk = changed(input, R"({"zero_optimization": {"sub_group_size": 262144,
      "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}})");
  for (auto const& asked : {input, on_disk}) {  // the file may have offloaded them already
    auto const roomy = advised(asked, states.bytes.total() - 1);
    REQUIRE(roomy);
    CHECK(roomy->total == with(on_disk, roomy->count).bytes.total());
    CHECK(roomy->in_tier == with(on_disk, roomy->count).parameters_disk.bytes);
    CHECK(roomy->total < states.bytes.total());
    auto const tight = advised(asked, with(on_disk, 1 << 18).bytes.total());
    REQUIRE(tight);
    CHECK(tight->count == 1 << 18);
  }
  CHECK_FALSE(advised(changed(on_disk, R"({"zero_optimization": {"offload_param": {"device": "nvme",
      "nvme_path": "/nvme"}}})"),
                      1));
  CHECK_FALSE(advice_for(input, 2, 1).stages.front().parameters);  // stage 2 does not shard them
  auto on_gpu = input;
  on_gpu.options.device = DeviceKind::cuda;
  CHECK_FALSE(advised(on_gpu, 1));
}

TEST_CASE("Host memory for a GPU's states is suggested, and the plan confirms it") {
  auto input = input_for(equal_units(1'000'000'000), file_of_stage(1, R"(, "bf16": {"enabled": true})"), 8);
  input.options.device = DeviceKind::cuda;
  auto const total = plan_of(input).bytes.total();
  auto const tier = advice_for(input, 1, total - 1).stages.front().states;
  REQUIRE(tier);
  auto const with = plan_of(changed(input, R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"},
                                               "sub_group_size": )" +
                                               std::to_string(tier->count) + "}}"));
  CHECK(tier->total == with.bytes.total());
  CHECK(tier->in_tier == with.host.bytes);
  CHECK(with.host.bytes > 0);
  CHECK(with.disk.bytes == 0);
  auto const has_it = changed(input, R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})");
  CHECK_FALSE(advice_for(has_it, 1, 1).stages.front().states);
}

TEST_CASE("If no key of the file saves memory, none is suggested") {
  auto const input = input_for(equal_units(1'000'000'000), R"({"train_micro_batch_size_per_gpu": 1, "bf16": {
    "enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}})",
                               8);
  auto const advice = advice_for(input, 0, gib);
  CHECK(advice.stages.front().savings.empty());
  CHECK(advice.stages.front().total_with_savings == plan_of(input).bytes.total());
}

}  // namespace
}  // namespace zeroth::tools
