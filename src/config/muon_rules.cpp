// SPDX-License-Identifier: Apache-2.0
#include "config/named_rules.hpp"

#include <fmt/format.h>

#include "config/keys.hpp"

namespace zeroth::config {
namespace {

bool is_muon(Values const& values) { return values.get<"optimizer.type">() == "Muon"; }

std::string with_muon(Values const& values, bool good, std::string const& given, char const* why, char const* allowed) {
  return is_muon(values) && !good ? fmt::format("{}, but optimizer.type is Muon, {}; allowed: {}", given, why, allowed)
                                  : std::string{};
}

template <Path P>
std::string muon_has_no_groups(Values const& values, std::int64_t most) {
  auto const size = values.get<P>();
  return with_muon(values, size <= most, fmt::format("{}", size), "which sends matrices between all ranks",
                   most == 0 ? "-1" : "1");
}

template <Path P>
std::string muon_has_one_part(Values const& values) {
  auto const parts = values.get<P>();
  return with_muon(values, parts == 1, fmt::format("{}", parts),
                   "which has the whole model's matrices among data-parallel ranks", "1");
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

std::string muon_has_states_in_memory(Values const& values) {
  auto const device = values.get<"zero_optimization.offload_optimizer.device">();
  return with_muon(values, device == "none", fmt::format("\"{}\"", device),
                   "whose directions are computed from states in memory", "\"none\"");
}

std::string muon_has_no_older_offload(Values const& values) {
  return with_muon(values,
                   !values.says<"zero_optimization.cpu_offload">() || !values.get<"zero_optimization.cpu_offload">(),
                   "true", "whose directions are computed from states in memory", "false");
}

std::string muon_has_wide_momentum(Values const& values) {
  return with_muon(values, !values.get<"bf16.bf16_optimizer_states">(), "true", "whose momentum is fp32", "false");
}

std::string muon_has_no_hpz(Values const& values) {
  return muon_has_no_groups<"zero_optimization.zero_hpz_partition_size">(values, 1);
}

std::string muon_has_no_mics(Values const& values) {
  return muon_has_no_groups<"zero_optimization.mics_shard_size">(values, 0);
}

std::string muon_has_one_level(Values const& values) {
  return with_muon(values, !values.get<"zeroth.two_level_sums">(), "true", "which sends matrices between all ranks",
                   "false");
}

std::string muon_has_one_stage(Values const& values) { return muon_has_one_part<"zeroth.mesh.pipeline">(values); }

std::string muon_has_one_tensor_rank(Values const& values) { return muon_has_one_part<"zeroth.mesh.tensor">(values); }

}  // namespace zeroth::config
