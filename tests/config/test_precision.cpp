// SPDX-License-Identifier: Apache-2.0
/// The dtypes of gradients on their way from backward to the optimizer.
#include <vector>

#include "config/config_support.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

using testing::problems_of;
using testing::settings_of;

std::string to_text(PrecisionSettings const& precision) {
  return fmt::format("{} {} {} {}", name_of(precision.compute), name_of(precision.gradient), name_of(precision.reduce),
                     name_of(precision.accumulate));
}

std::string const every = R"("zeroth": {"reduce_gradients": "every_micro_step"})";
std::string const last = R"("zeroth": {"reduce_gradients": "last_micro_step"})";
std::string const every_wide = R"("zeroth": {"reduce_gradients": "every_micro_step", "gradient_dtype": "fp32"})";
std::string const last_wide = R"("zeroth": {"reduce_gradients": "last_micro_step", "gradient_dtype": "fp32"})";
std::string const bf16 = R"("bf16": {"enabled": true}, )";
std::string const fp16 = R"("fp16": {"enabled": true}, )";
std::string const twice = R"(, "gradient_accumulation_steps": 2)";

TEST_CASE("Dtypes follow their rules") {
  struct Row {
    std::string members, compute_gradient_reduce_accumulate;
  };
  std::vector<Row> const table = {
      {every, "fp32 fp32 fp32 fp32"},
      {last, "fp32 fp32 fp32 fp32"},
      // One reduction per step: its result keeps its dtype.
      {bf16 + every, "bf16 bf16 bf16 bf16"},
      {bf16 + last, "bf16 bf16 bf16 bf16"},
      {bf16 + last + twice, "bf16 bf16 bf16 bf16"},
      {fp16 + last + twice, "fp16 fp16 fp16 fp16"},
      // Several reductions: they are accumulated in fp32.
      {bf16 + every + twice, "bf16 bf16 bf16 fp32"},
      {fp16 + every + twice, "fp16 fp16 fp16 fp32"},
      // Gradients in fp32.
      {bf16 + every_wide, "bf16 fp32 fp32 fp32"},
      {fp16 + last_wide + twice, "fp16 fp32 fp32 fp32"},
      // Another dtype on the wire.
      {bf16 + every + R"(, "communication_data_type": "fp32")", "bf16 bf16 fp32 fp32"},
      {bf16 + last + twice + R"(, "communication_data_type": "fp32")", "bf16 bf16 fp32 fp32"},
      {every + R"(, "communication_data_type": "bf16")", "fp32 fp32 bf16 bf16"},
      {every + twice + R"(, "communication_data_type": "fp16")", "fp32 fp32 fp16 fp32"},
      {last + twice + R"(, "communication_data_type": "bf16")", "fp32 fp32 bf16 bf16"},
      {fp16 + last_wide + twice + R"(, "communication_data_type": "fp16")", "fp16 fp32 fp16 fp16"},
      // Another dtype for accumulation.
      {bf16 + every + twice + R"(, "data_types": {"grad_accum_dtype": "bf16"})", "bf16 bf16 bf16 bf16"},
      {bf16 + every + R"(, "data_types": {"grad_accum_dtype": "fp32"})", "bf16 bf16 bf16 fp32"},
      {bf16 + last + R"(, "data_types": {"grad_accum_dtype": "fp32"})", "bf16 bf16 bf16 fp32"},
      {bf16 + last + twice + R"(, "data_types": {"grad_accum_dtype": "bf16"})", "bf16 bf16 bf16 bf16"},
      {bf16 + last_wide + twice + R"(, "data_types": {"grad_accum_dtype": "fp32"})", "bf16 fp32 fp32 fp32"},
      // Micro-steps accumulate in fp32 on the rank, and are reduced once, in 16 bits.
      {bf16 + last + twice + R"(, "data_types": {"grad_accum_dtype": "fp32"})", "bf16 bf16 bf16 fp32"},
      // Micro-steps accumulate in bf16 on the rank, as requested; the one reduction is in fp32, and its result stays
      // so.
      {bf16 + last + twice + R"(, "communication_data_type": "fp32", "data_types": {"grad_accum_dtype": "bf16"})",
       "bf16 bf16 fp32 fp32"},
  };
  for (auto const& [members, expected] : table) {
    INFO(members);
    CHECK(to_text(settings_of(members).precision) == expected);
  }
}

TEST_CASE("16-bit gradients are summed in fp32 on the rank only if the file says so") {
  std::string const wide = R"(, "data_types": {"grad_accum_dtype": "fp32"})";
  auto const sums = [](std::string const& members) { return settings_of(members).sums_micro_steps; };
  CHECK(sums(bf16 + last + twice + wide));
  CHECK(sums(fp16 + last + twice + wide));
  CHECK(sums(bf16 + last + twice + wide + R"(, "communication_data_type": "fp32")"));
  CHECK_FALSE(sums(bf16 + last + wide));  // one micro-step
  CHECK_FALSE(sums(bf16 + every + twice + wide));
  CHECK_FALSE(sums(bf16 + last_wide + twice + wide));
  CHECK_FALSE(sums(last + twice + wide));
  CHECK_FALSE(sums(bf16 + last + twice));
  CHECK_FALSE(sums(bf16 + last + twice + R"(, "communication_data_type": "fp32")"));  // as before: backward accumulates
  auto const config = Config::from_json(
      R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
          "data_types": {"grad_accum_dtype": "fp32"}})");
  CHECK_FALSE(config.settings(4, 1).sums_micro_steps);
  CHECK(config.settings(2, 1).sums_micro_steps);  // this world needs two micro-steps
}

TEST_CASE("Settings record whether the file says when gradients are reduced") {
  CHECK(settings_of(every).reduce_gradients_given);
  CHECK(settings_of(last).reduce_gradients_given);
  CHECK_FALSE(settings_of(R"("gradient_accumulation_steps": 2)").reduce_gradients_given);
  CHECK_FALSE(settings_of(R"("zeroth": {"reduce_gradients": "auto"})").reduce_gradients_given);
}

TEST_CASE("A Config knows the program's dtypes without the number of ranks") {
  auto const dtypes = [](std::string const& members) {
    auto const config = Config::from_json(testing::file_with(members));
    return fmt::format("{} {}", name_of(config.compute_dtype()), name_of(config.gradient_dtype()));
  };
  CHECK(dtypes(every) == "fp32 fp32");
  CHECK(dtypes(bf16 + every) == "bf16 bf16");
  CHECK(dtypes(bf16 + every_wide) == "bf16 fp32");
  CHECK(dtypes(fp16 + every) == "fp16 fp16");
}

TEST_CASE("bf16 masters make all gradients bf16, and moments may be bf16 too") {
  auto const with = [](char const* more) {
    return fmt::format(R"("bf16": {{"enabled": true, "bf16_master_weights_and_grads": true{}}}, )", more);
  };
  auto const states_of = [](std::string const& members) {
    auto const precision = settings_of(members).precision;
    return fmt::format("{}; {} {}", to_text(precision), name_of(precision.master), name_of(precision.states));
  };
  CHECK(states_of(every) == "fp32 fp32 fp32 fp32; fp32 fp32");
  CHECK(states_of(bf16 + every) == "bf16 bf16 bf16 bf16; fp32 fp32");
  for (auto const& rule : {every, every + twice, last, last + twice}) {
    INFO(rule);
    CHECK(states_of(with("") + rule) == "bf16 bf16 bf16 bf16; bf16 fp32");
    CHECK(states_of(with(R"(, "bf16_optimizer_states": true)") + rule) == "bf16 bf16 bf16 bf16; bf16 bf16");
  }
  CHECK(states_of(with("") + every + twice + R"(, "data_types": {"grad_accum_dtype": "bf16"})") ==
        "bf16 bf16 bf16 bf16; bf16 fp32");
  CHECK(settings_of(with("") + every).update.rounding_seed == 0);
  CHECK(settings_of(R"("zeroth": {"stochastic_rounding_seed": 1234567890123})").update.rounding_seed == 1234567890123);
  for (int stage = 0; stage <= 3; ++stage) {  // DeepSpeed rejects 0
    auto const file = with("") + fmt::format(R"("zero_optimization": {{"stage": {}}})", stage);
    CHECK(settings_of(file).precision.master == Dtype::bf16);
  }
}

TEST_CASE("Each contradiction of bf16 masters is rejected once") {
  auto const problems = [](std::string const& members) { return problems_of(testing::file_with(members), 1); };
  std::string const masters = R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true}, )";
  CHECK(
      problems(R"("bf16": {"bf16_master_weights_and_grads": true})") ==
      "  bf16.bf16_master_weights_and_grads (line 1): true, but bf16.enabled is false; enable it: the masters are the "
      "bf16 parameters");
  CHECK(problems(R"("bf16": {"enabled": true, "bf16_optimizer_states": true})") ==
        "  bf16.bf16_optimizer_states (line 1): true, but bf16.bf16_master_weights_and_grads is false; set that too");
  std::string const refused = R"( (line 1): "fp32", but bf16.bf16_master_weights_and_grads is true; allowed: "bf16")";
  for (auto const& rule : {"", R"("gradient_accumulation_steps": 2, )"}) {
    INFO(rule);
    CHECK(problems(masters + rule + R"("data_types": {"grad_accum_dtype": "fp32"})") ==
          "  data_types.grad_accum_dtype" + refused);
    CHECK(problems(masters + rule + R"("communication_data_type": "fp32")") == "  communication_data_type" + refused);
    CHECK(problems(masters + rule + R"("zeroth": {"gradient_dtype": "fp32"})") == "  zeroth.gradient_dtype" + refused);
  }
  CHECK_THAT(problems(R"("zeroth": {"stochastic_rounding_seed": -1})"),
             Catch::Contains("zeroth.stochastic_rounding_seed (line 1): -1 is out of range"));
}

TEST_CASE("Dtypes have DeepSpeed's spellings") {
  for (auto const* const name : {"bf16", "bfloat16", "torch.bfloat16"}) {
    CHECK(problems_of(testing::file_with(fmt::format(R"({}"data_types": {{"param_dtype": "{}"}})", bf16, name))) == "");
  }
  for (auto const* const name : {"fp16", "float16", "half", "torch.float16"}) {
    CHECK(problems_of(testing::file_with(fmt::format(R"({}"data_types": {{"param_dtype": "{}"}})", fp16, name))) == "");
  }
  for (auto const* const name : {"fp32", "float32", "float", "torch.float32"}) {
    CHECK(problems_of(testing::file_with(fmt::format(R"("data_types": {{"param_dtype": "{}"}})", name))) == "");
  }
  CHECK(settings_of(R"("communication_data_type": "BF16")").precision.reduce == Dtype::bf16);
}

TEST_CASE("Accumulation that only the world size determines also determines dtypes") {
  auto const config = Config::from_json(testing::file_with(
      R"("train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2})"));
  CHECK(config.settings(4, 1).precision.accumulate == Dtype::bf16);  // one micro-step
  CHECK(config.settings(2, 1).precision.accumulate == Dtype::fp32);  // two
}

}  // namespace
}  // namespace zeroth
