// SPDX-License-Identifier: Apache-2.0
/// Config::with(): copies of a file with changes.
#include "config/config_support.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace zeroth {
namespace {

using testing::printed;
using testing::thrown;

TEST_CASE("A change replaces values of the file, and derived values are derived again") {
  auto const config = Config::from_json(R"({"train_batch_size": 8, "bf16": {"enabled": true},
                                            "zero_optimization": {"stage": 1, "reduce_bucket_size": 1000}})");
  auto const changed = config.with(R"({"zero_optimization": {"stage": 3}})");
  auto const settings = changed.settings(2, 100);
  CHECK(settings.stage == 3);
  CHECK(settings.reduce_bucket_count == 1000);
  CHECK(settings.overlap_comm);                                           // derived from the stage
  CHECK(settings.reduce_gradients == ReduceGradients::every_micro_step);  // this too
  CHECK(settings.precision.compute == Dtype::bf16);
  CHECK(printed(changed)["zero_optimization.stage"]["origin"] == "set");
  CHECK(config.settings(2, 100).stage == 1);  // the first is unchanged
}

TEST_CASE("A change may add sections and values, and may be applied after another change") {
  auto const config = Config::from_json(R"({"train_batch_size": 8})")
                          .with(R"({"zeroth": {"gradient_slots": 3}, "bf16": {"enabled": true}})")
                          .with(R"({"zeroth": {"reduce_gradients": "every_micro_step"}})");
  auto const settings = config.settings(1, 100);
  CHECK(settings.gradient_slots == 3);
  CHECK(settings.precision.compute == Dtype::bf16);
  CHECK(settings.reduce_gradients == ReduceGradients::every_micro_step);
}

TEST_CASE("A change finds a key under either of its spellings") {
  auto const config =
      Config::from_json(R"({"train_batch_size": 8, "zero_optimization": {"prefetch_bucket_size": 7},
                            "bfloat16": {"enabled": true}})")
          .with(R"({"zero_optimization": {"stage3_prefetch_bucket_size": 9}, "bf16": {"enabled": false}})");
  CHECK(config.settings(1, 100).prefetch_count == 9);
  CHECK(config.compute_dtype() == Dtype::fp32);
}

TEST_CASE("A null or \"auto\" change removes a value") {
  auto const config = Config::from_json(R"({"train_batch_size": 8, "zeroth": {"gradient_slots": 5}})");
  CHECK(config.with(R"({"zeroth": {"gradient_slots": "auto"}})").settings(1, 100).gradient_slots == 1);
}

TEST_CASE("A change that contradicts the file is rejected, and only lines of the file are named") {
  auto const config = Config::from_json("{\"train_batch_size\": 8,\n\"bf16\": {\"enabled\": true}}");
  CHECK(thrown<ConfigError>([&] { return config.with(R"({"fp16": {"enabled": true}})"); }) ==
        "<text>: 1 problem\n  bf16.enabled (line 2): true, and fp16.enabled too; enable one of them");
  CHECK(thrown<ConfigError>([&] { return config.with(R"({"zero_optimization": {"stage": 4}})"); }) ==
        "<text>: 1 problem\n  zero_optimization.stage: 4 is out of range; allowed: an integer from 0 to 3");
  CHECK(thrown<ConfigError>([&] { return config.with("[1]"); }) ==
        "<text>, with changes: 1 problem\n  holds an array; allowed: one JSON object");
}

}  // namespace
}  // namespace zeroth
