// SPDX-License-Identifier: Apache-2.0
#include "config/named_rules.hpp"

#include <fmt/format.h>

#include <string_view>

#include "config/keys.hpp"

namespace zeroth::config {
namespace {

/// The problem of gradients of `dtype` with bf16 masters. Only fp32 is rejected here; other rules reject the other
/// dtypes.
std::string too_wide_for_bf16_masters(Values const& values, std::string_view dtype) {
  bool const contradicts = dtype == "fp32" && values.get<"bf16.bf16_master_weights_and_grads">();
  return contradicts ? R"("fp32", but bf16.bf16_master_weights_and_grads is true; allowed: "bf16")" : "";
}

}  // namespace

std::string one_16_bit_dtype(Values const& values) {
  bool const both = values.get<"fp16.enabled">() && values.get<"bf16.enabled">();
  return both ? "true, and fp16.enabled too; enable one of them" : "";
}

std::string bf16_masters_are_parameters(Values const& values) {
  bool const holds = values.get<"bf16.enabled">() || !values.get<"bf16.bf16_master_weights_and_grads">();
  return holds ? "" : "true, but bf16.enabled is false; enable it: the masters are the bf16 parameters";
}

std::string bf16_moments_have_bf16_masters(Values const& values) {
  bool const holds = values.get<"bf16.bf16_master_weights_and_grads">() || !values.get<"bf16.bf16_optimizer_states">();
  return holds ? "" : "true, but bf16.bf16_master_weights_and_grads is false; set that too";
}

std::string param_dtype_is_computed(Values const& values) {
  auto const dtype = values.get<"data_types.param_dtype">();
  auto const compute = compute_dtype(values);
  return dtype == compute ? ""
                          : fmt::format(
                                "\"{}\", but fp16.enabled and bf16.enabled make it \"{}\"; change those or "
                                "leave this key out",
                                dtype, compute);
}

std::string gradient_dtype_is_wide_or_computed(Values const& values) {
  auto const dtype = values.get<"zeroth.gradient_dtype">();
  if (auto text = too_wide_for_bf16_masters(values, dtype); !text.empty()) {
    return values.says<"zeroth.gradient_dtype">() ? text : std::string{};
  }
  auto const compute = compute_dtype(values);
  auto const other = compute == "fp32" ? std::string{} : fmt::format(R"( or "{}", the compute dtype)", compute);
  return dtype == "fp32" || dtype == compute
             ? ""
             : fmt::format(R"("{}", but the compute dtype is "{}"; allowed: "fp32"{})", dtype, compute, other);
}

std::string reduce_dtype_is_wide_or_gradient(Values const& values) {
  auto const dtype = values.get<"communication_data_type">();
  auto const gradient = values.get<"zeroth.gradient_dtype">();
  if (auto text = too_wide_for_bf16_masters(values, dtype); !text.empty()) {
    return values.says<"communication_data_type">() ? text : std::string{};
  }
  // fp32 gradients may be rounded to either 16-bit dtype. Between those two, each loses what the other keeps.
  return dtype == "fp32" || gradient == "fp32" || dtype == gradient
             ? ""
             : fmt::format(
                   "\"{}\", but gradients are \"{}\"; allowed: \"fp32\" or \"{}\", or set zeroth.gradient_dtype "
                   "to \"fp32\"",
                   dtype, gradient, gradient);
}

std::string accumulate_dtype_is_used(Values const& values) {
  if (!values.says<"data_types.grad_accum_dtype">()) {
    return {};
  }
  auto const dtype = values.get<"data_types.grad_accum_dtype">();
  if (auto text = too_wide_for_bf16_masters(values, dtype); !text.empty()) {
    return text;
  }
  auto const reduce = values.get<"communication_data_type">();
  if (values.get<"zeroth.reduce_gradients">() == "last_micro_step" && values.get<"gradient_accumulation_steps">() > 1) {
    auto const gradient = values.get<"zeroth.gradient_dtype">();
    auto const other = gradient == "fp32" ? std::string{} : fmt::format(R"( or "{}", the gradient dtype)", gradient);
    std::string_view const remedy = dtype == reduce ? R"(, or set zeroth.reduce_gradients to "every_micro_step")" : "";
    return dtype == "fp32" || dtype == gradient
               ? ""
               : fmt::format(
                     "\"{}\", but with zeroth.reduce_gradients \"last_micro_step\" gradients of \"{}\" are added up "
                     "before they are reduced; allowed: \"fp32\"{}{}",
                     dtype, gradient, other, remedy);
  }
  auto const other = reduce == "fp32" ? std::string{} : fmt::format(R"( or "{}", the dtype that is reduced)", reduce);
  return dtype == "fp32" || dtype == reduce
             ? ""
             : fmt::format(R"("{}", but "{}" is reduced; allowed: "fp32"{})", dtype, reduce, other);
}

std::string codec_is_said_once(Values const& values) {
  auto const codec = values.get<"zeroth.reduce_codec">();
  if (values.get<"zero_optimization.zero_quantized_gradients">() && codec != "int4") {
    return fmt::format(
        R"("{}", but zero_optimization.zero_quantized_gradients is true, which is "int4"; give one of them)", codec);
  }
  bool const encodes = codec == "int8" || codec == "int4" || codec == "sign";
  return encodes && values.says<"communication_data_type">()
             ? fmt::format(
                   R"("{}", but communication_data_type is "{}", and gradients travel as {}; give one of them, or )"
                   R"("exact")",
                   codec, values.get<"communication_data_type">(), codec)
             : "";
}

std::string signs_leave_errors(Values const& values) {
  if (values.get<"zeroth.reduce_codec">() != "sign") {
    return {};
  }
  auto const but = [](std::string const& other, std::string_view why, std::string_view remedy) {
    return fmt::format(R"("sign", but {}, {}; {})", other, why, remedy);
  };
  if (auto const stage = values.get<"zero_optimization.stage">(); stage > 1) {
    return but(fmt::format("zero_optimization.stage is {}", stage),
               "and each rank would keep errors of whole gradients, the memory that this stage saves",
               R"(allowed: stages 0 and 1, or "int8" or "int4")");
  }
  if (values.get<"zeroth.two_level_sums">()) {
    return but("zeroth.two_level_sums is true", "and ranks keep errors of one sum", R"(set one of them)");
  }
  if (auto const ranks = values.get<"zeroth.mesh.tensor">(); ranks > 1) {
    return but(fmt::format("zeroth.mesh.tensor is {}", ranks), "and sums over tensor ranks are not encoded",
               R"(allowed: 1, or "int8" or "int4")");
  }
  bool const scales = values.get<"fp16.enabled">() && values.get<"fp16.loss_scale">() == 0;
  return scales ? but("fp16.loss_scale is 0", "and errors of one loss scale do not fit to another",
                      R"(set a constant scale, enable bf16 instead, or take "int8" or "int4")")
                : "";
}

std::string quantised_parameters_have_masters(Values const& values) {
  auto const codec = values.get<"zeroth.gather_codec">();
  if (codec == "none") {
    return values.get<"zero_optimization.zero_quantized_weights">()
               ? R"("none", but zero_optimization.zero_quantized_weights is true, which is "int8"; give one of them)"
               : "";
  }
  if (values.get<"bf16.bf16_master_weights_and_grads">()) {
    return fmt::format(R"("{}", but bf16.bf16_master_weights_and_grads is true, and parameters that are rounded after )"
                       R"(each update need fp32 masters; set that to false, or this to "none")",
                       codec);
  }
  return compute_dtype(values) == "fp32"
             ? fmt::format(
                   R"("{}", but parameters are computed with in fp32, and are their own masters; enable bf16 or )"
                   R"(fp16, or set this to "none")",
                   codec)
             : "";
}

std::string averages_are_of_wide_masters(Values const& values) {
  return values.says<"zeroth.ema.decay">() && values.get<"bf16.bf16_master_weights_and_grads">()
             ? fmt::format(
                   "{}, but bf16.bf16_master_weights_and_grads is true, and averages are of fp32 masters; set "
                   "that to false, or leave this key out",
                   values.get<"zeroth.ema.decay">())
             : "";
}

std::string same_bits_are_kept(Values const& values) {
  if (!values.get<"zeroth.same_bits_at_any_ranks">()) {
    return {};
  }
  if (values.get<"zeroth.reduce_gradients">() == "last_micro_step") {
    return R"(true, but zeroth.reduce_gradients is "last_micro_step", and a rank adds up its own micro-steps first; )"
           R"(allowed: "every_micro_step")";
  }
  if (values.get<"zeroth.reduce_codec">() == "sign") {
    return R"(true, but zeroth.reduce_codec is "sign", and each rank adds errors of its own; set one of them)";
  }
  if (values.get<"zeroth.two_level_sums">()) {
    return "true, but zeroth.two_level_sums is true, and groups of ranks sum first; set one of them";
  }
  if (values.get<"bf16.bf16_master_weights_and_grads">()) {
    return "true, but bf16.bf16_master_weights_and_grads is true, and sums are rounded to bf16; set one of them";
  }
  auto const sums = values.get<"data_types.grad_accum_dtype">();
  return sums == "fp32" ? "" : fmt::format(R"(true, but data_types.grad_accum_dtype is "{}"; allowed: "fp32")", sums);
}

}  // namespace zeroth::config
