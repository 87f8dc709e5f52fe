// SPDX-License-Identifier: Apache-2.0
/// Common parts of the benchmarks of AdamW on the CPU and on a GPU: dtypes, arguments, bytes that must move.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::bench {

struct AdamwVariant {
  Dtype gradient, parameter;
  bool writes_parameter;
  Dtype master = Dtype::fp32, moments = Dtype::fp32;
  [[nodiscard]] std::string_view parameter_name() const { return writes_parameter ? name_of(parameter) : "none"; }
};

constexpr std::array adamw_variants{
    AdamwVariant{Dtype::fp32, Dtype::fp32, false},
    AdamwVariant{Dtype::fp32, Dtype::bf16, true},
    AdamwVariant{Dtype::bf16, Dtype::bf16, true},
    AdamwVariant{Dtype::fp32, Dtype::fp16, true},
    AdamwVariant{Dtype::fp16, Dtype::fp16, true},
    AdamwVariant{Dtype::bf16, Dtype::fp32, false, Dtype::bf16, Dtype::fp32},
    AdamwVariant{Dtype::bf16, Dtype::fp32, false, Dtype::bf16, Dtype::bf16},
};

/// The value of every byte of the measured memory: about 0.01 as fp32, 1 as fp16.
inline constexpr int adamw_byte = 0x3c;

[[nodiscard]] inline optim::StepScalars adamw_scalars() {
  optim::StepScalars scalars;
  scalars.gradient_scale = 0.5F;
  scalars.learning_rate = 1e-3F;
  return scalars;
}

inline optim::Update const updates[] = {
    {optim::Adam{.weight_decay = 0.01F}},
    {optim::Sgd{.weight_decay = 0.01F}},
    {optim::Momentum{.momentum = 0.9F, .weight_decay = 0.01F, .nesterov = true}},
    {optim::Adagrad{.weight_decay = 0.01F}},
    {optim::RmsProp{.weight_decay = 0.01F}},
    {optim::RmsPropMomentum{.plain = {.weight_decay = 0.01F}, .momentum = 0.9F}},
    {optim::Lion{.weight_decay = 0.01F}},
};

/// Buffers of `count` elements, with 4 bytes per element.
struct AdamwMemory {
  void *master, *m, *v, *gradient, *parameter;
};
[[nodiscard]] inline optim::UpdateArgs adamw_args(AdamwMemory const& memory, std::int64_t count,
                                                  std::span<optim::Segment const> segments,
                                                  optim::StepScalars const* scalars) {
  optim::UpdateArgs args;
  args.master = memory.master;
  args.states = {memory.m, memory.v};
  args.gradient = memory.gradient;
  args.parameter = memory.parameter;
  args.count = count;
  args.segments = segments;
  args.update = updates;
  args.scalars = scalars;
  return args;
}

[[nodiscard]] inline optim::UpdateArgs as(AdamwVariant const& variant, optim::UpdateArgs args) {
  args.gradient_dtype = variant.gradient;
  args.parameter_dtype = variant.parameter;
  args.parameter = variant.writes_parameter ? args.parameter : nullptr;
  args.master_dtype = variant.master;
  args.states_dtype = variant.moments;
  return args;
}

/// Bytes read and written: master and states both ways, the gradient in, the parameter out.
[[nodiscard]] inline std::int64_t update_bytes(AdamwVariant const& variant, optim::Rule const& rule,
                                               std::int64_t count) {
  auto const states = bytes_of(variant.master) + optim::state_count(rule) * bytes_of(variant.moments);
  auto const written = variant.writes_parameter ? bytes_of(variant.parameter) : 0;
  return count * (2 * states + bytes_of(variant.gradient) + written);
}

}  // namespace zeroth::bench
