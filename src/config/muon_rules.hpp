// SPDX-License-Identifier: Apache-2.0
/// Rules about the optimizer Muon and what it does not support. As in rules.cpp, each returns the mistake in a key and
/// its remedy; empty if nothing is wrong.
#pragma once
#include <string>

#include "config/values.hpp"

namespace zeroth::config {

[[nodiscard]] std::string muon_is_a_mean(Values const& values);
[[nodiscard]] std::string muon_rates_have_a_base(Values const& values);
[[nodiscard]] std::string muon_has_states_in_memory(Values const& values);
[[nodiscard]] std::string muon_has_no_older_offload(Values const& values);
[[nodiscard]] std::string muon_has_wide_momentum(Values const& values);
[[nodiscard]] std::string muon_has_no_hpz(Values const& values);
[[nodiscard]] std::string muon_has_no_mics(Values const& values);
[[nodiscard]] std::string muon_has_one_level(Values const& values);
[[nodiscard]] std::string muon_has_one_stage(Values const& values);
[[nodiscard]] std::string muon_has_one_tensor_rank(Values const& values);

}  // namespace zeroth::config
