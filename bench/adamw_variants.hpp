/// What the benchmarks of AdamW on the CPU and on a GPU have in common: dtypes, arguments, bytes that must move.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "zeroth/optim/adamw.hpp"
#include "zeroth/optim/step_scalars.hpp"

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

/// Every byte of memory that is measured on has this value: about 0.01 as fp32, 1 as fp16.
inline constexpr int adamw_byte = 0x3c;

[[nodiscard]] inline optim::StepScalars adamw_scalars() {
  optim::StepScalars scalars;
  scalars.gradient_scale = 0.5F;
  scalars.learning_rate = 1e-3F;
  return scalars;
}

/// Over `count` elements of each of these, which hold 4 bytes per element.
struct AdamwMemory {
  void *master, *m, *v, *gradient, *parameter;
};
[[nodiscard]] inline optim::AdamwArgs adamw_args(AdamwMemory const& memory, std::int64_t count,
                                                 std::span<optim::AdamwSegment const> segments,
                                                 optim::StepScalars const* scalars) {
  optim::AdamwArgs args;
  args.master = memory.master;
  args.m = memory.m;
  args.v = memory.v;
  args.gradient = memory.gradient;
  args.parameter = memory.parameter;
  args.count = count;
  args.segments = segments;
  args.rules.weight_decay = 0.01F;
  args.scalars = scalars;
  return args;
}

[[nodiscard]] inline optim::AdamwArgs as(AdamwVariant const& variant, optim::AdamwArgs args) {
  args.gradient_dtype = variant.gradient;
  args.parameter_dtype = variant.parameter;
  args.parameter = variant.writes_parameter ? args.parameter : nullptr;
  args.master_dtype = variant.master;
  args.moments_dtype = variant.moments;
  return args;
}

/// Read and written: master, m and v both ways, the gradient in, the parameter out.
[[nodiscard]] inline std::int64_t adamw_bytes(AdamwVariant const& variant, std::int64_t count) {
  auto const states = bytes_of(variant.master) + 2 * bytes_of(variant.moments);
  auto const written = variant.writes_parameter ? bytes_of(variant.parameter) : 0;
  return count * (2 * states + bytes_of(variant.gradient) + written);
}

}  // namespace zeroth::bench
