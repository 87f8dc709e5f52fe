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
  if (good || (type != "Muon" && type != "Lamb")) {
    return {};
  }
  return fmt::format("{}, but optimizer.type is {}, which computes {} from fp32 states in memory; allowed: {}", given,
                     type, type == "Muon" ? "directions" : "trust ratios", allowed);
}

}  // namespace

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
