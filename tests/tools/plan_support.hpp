// SPDX-License-Identifier: Apache-2.0
/// Common parts of the tests of plans.
#pragma once
#include <string>

#include "model_source.hpp"
#include "plan.hpp"

namespace zeroth::tools {

/// ZeRO's mixed precision: 2 bytes per parameter, 2 for its gradient and 12 for the optimizer. Gradients have two bytes
/// because a single micro-step is reduced once, in bf16, and not accumulated.
inline constexpr char const* mixed = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
                                         "bf16": {"enabled": true}})";

inline Model equal_units(std::int64_t parameters, std::int64_t units = 32) {
  return read_model({.model = {}, .parameters = parameters, .units = units}).model;
}
inline PlanInput input_for(Model model, std::string const& config, int world) {
  return {std::move(model), Config::from_json(config), world, {}};
}
inline std::string file_of_stage(int stage, std::string const& more = "") {
  return R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": )" + std::to_string(stage) + "}" +
         more + "}";
}

}  // namespace zeroth::tools
