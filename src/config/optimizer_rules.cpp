// SPDX-License-Identifier: Apache-2.0
#include "config/named_rules.hpp"

#include <fmt/format.h>

#include "config/keys.hpp"

namespace zeroth::config {
namespace {

bool is_muon(Values const& values) { return values.get<"optimizer.type">() == "Muon"; }

/// For optimizers whose updates are computed from states of whole matrices or parameters, which are fp32 in memory.
std::string needs_all_states(Values const& values, bool good, std::string const& given, char const* allowed) {
  auto const type = values.get<"optimizer.type">();
  if (good || (type != "Muon" && type != "Lamb" && type != "OneBitAdam")) {
    return {};
  }
  auto const* const what = type == "Muon" ? "directions" : type == "Lamb" ? "trust ratios" : "what ranks exchange";
  return fmt::format("{}, but optimizer.type is {}, which computes {} from fp32 states in memory; allowed: {}", given,
                     type, what, allowed);
}

/// For 1-bit Adam, in which every rank has all first moments, and after the freeze its own gradients.
std::string with_one_bit_adam(Values const& values, bool good, std::string const& given, char const* why,
                              char const* allowed) {
  return good || values.get<"optimizer.type">() != "OneBitAdam"
             ? std::string{}
             : fmt::format("{}, but optimizer.type is OneBitAdam, {}; allowed: {}", given, why, allowed);
}

constexpr auto const* no_sums = "with which ranks do not sum gradients after freeze_step";

}  // namespace

std::string one_bit_adam_has_all_momenta(Values const& values) {
  auto const stage = values.get<"zero_optimization.stage">();
  return with_one_bit_adam(values, stage == 0, fmt::format("{}", stage), "with which every rank has all first moments",
                           R"(0, or another optimizer and zeroth.reduce_codec "sign")");
}

std::string one_bit_adam_clips_nothing(Values const& values) {
  auto const clip = values.get<"gradient_clipping">();
  return with_one_bit_adam(values, clip == 0, fmt::format("{}", clip), no_sums, "0");
}

std::string one_bit_adam_has_its_codec(Values const& values) {
  auto const codec = values.get<"zeroth.reduce_codec">();
  return with_one_bit_adam(values, codec == "none", fmt::format("\"{}\"", codec),
                           "which encodes first moments itself, after freeze_step", "\"none\"");
}

std::string one_bit_adam_has_one_level(Values const& values) {
  return with_one_bit_adam(values, !values.get<"zeroth.two_level_sums">(), "true", no_sums, "false");
}

std::string one_bit_adam_depends_on_ranks(Values const& values) {
  return with_one_bit_adam(values, !values.get<"zeroth.same_bits_at_any_ranks">(), "true",
                           "with which each rank adds errors of its own", "false");
}

std::string one_bit_adam_has_one_stage(Values const& values) {
  auto const stages = values.get<"zeroth.mesh.pipeline">();
  return with_one_bit_adam(values, stages == 1, fmt::format("{}", stages), no_sums, "1");
}

std::string one_bit_adam_has_one_tensor_rank(Values const& values) {
  auto const ranks = values.get<"zeroth.mesh.tensor">();
  return with_one_bit_adam(values, ranks == 1, fmt::format("{}", ranks), no_sums, "1");
}

std::string one_bit_adam_sums_uses_together(Values const& values) {
  auto const tied = values.get<"zeroth.tied_gradients">();
  return with_one_bit_adam(values, tied == "together", fmt::format("\"{}\"", tied), no_sums, "\"together\"");
}

std::string one_bit_adam_has_masters(Values const& values) {
  return with_one_bit_adam(values, !values.get<"bf16.bf16_master_weights_and_grads">(), "true",
                           "whose first moments arrive in fp32", "false");
}

std::string one_bit_adam_has_one_scale(Values const& values) {
  bool const scales = values.get<"fp16.enabled">() && values.get<"fp16.loss_scale">() == 0;
  return with_one_bit_adam(values, !scales, "0, a dynamic scale", "which skips no steps",
                           "a constant scale, or bf16 instead of fp16");
}

std::string muon_is_a_mean(Values const& values) {
  auto const momentum = values.get<"optimizer.params.momentum">();
  return is_muon(values) && momentum >= 1
             ? fmt::format("{}, but optimizer.type is Muon, whose momentum is a mean; allowed: 0 to 1, without 1",
                           momentum)
             : "";
}

std::string muon_rates_have_a_base(Values const& values) {
  auto const muon = values.get<"optimizer.params.muon_lr">(), adam = values.get<"optimizer.params.adam_lr">();
  return is_muon(values) && values.get<"optimizer.params.lr">() == 0 && (muon > 0 || adam > 0)
             ? fmt::format("0, but muon_lr is {} and adam_lr {}, whose ratios to it a schedule keeps; allowed: above 0",
                           muon, adam)
             : "";
}

std::string states_are_in_memory(Values const& values) {
  auto const device = values.get<"zero_optimization.offload_optimizer.device">();
  return needs_all_states(values, device == "none", fmt::format("\"{}\"", device), "\"none\"");
}

std::string states_have_no_older_offload(Values const& values) {
  bool const offloads = values.says<"zero_optimization.cpu_offload">() && values.get<"zero_optimization.cpu_offload">();
  return needs_all_states(values, !offloads, "true", "false");
}

std::string states_are_wide(Values const& values) {
  return needs_all_states(values, !values.get<"bf16.bf16_optimizer_states">(), "true", "false");
}

std::string norms_are_of_masters(Values const& values) {
  auto const device = values.get<"zero_optimization.offload_param.device">();
  bool const masters_are_parameters =
      compute_dtype(values) == "fp32" || values.get<"bf16.bf16_master_weights_and_grads">();
  return values.get<"optimizer.type">() == "Lamb" && device == "nvme" && masters_are_parameters
             ? "\"nvme\", but optimizer.type is Lamb, which reads all masters before it updates the first, and here "
               "parameters are the masters; set it to \"none\", or compute in bf16 or fp16 with fp32 masters"
             : "";
}

std::string coefficients_ascend(Values const& values) {
  auto const least = values.get<"optimizer.params.min_coeff">(), most = values.get<"optimizer.params.max_coeff">();
  return values.get<"optimizer.type">() == "Lamb" && least > most
             ? fmt::format("{} is more than max_coeff, {}; allowed: up to that", least, most)
             : "";
}

}  // namespace zeroth::config
