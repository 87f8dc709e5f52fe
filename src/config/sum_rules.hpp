// SPDX-License-Identifier: Apache-2.0
/// Rules about the dtypes in which gradients are held, reduced and accumulated. As in rules.cpp, each returns the
/// mistake in a key and its remedy; empty if nothing is wrong.
#pragma once
#include <string>

#include "config/values.hpp"

namespace zeroth::config {

[[nodiscard]] std::string one_16_bit_dtype(Values const& values);
[[nodiscard]] std::string bf16_masters_are_parameters(Values const& values);
[[nodiscard]] std::string bf16_moments_have_bf16_masters(Values const& values);
[[nodiscard]] std::string param_dtype_is_computed(Values const& values);
[[nodiscard]] std::string gradient_dtype_is_wide_or_computed(Values const& values);
[[nodiscard]] std::string reduce_dtype_is_wide_or_gradient(Values const& values);
[[nodiscard]] std::string accumulate_dtype_is_used(Values const& values);
[[nodiscard]] std::string codec_is_said_once(Values const& values);
[[nodiscard]] std::string quantised_parameters_have_masters(Values const& values);
[[nodiscard]] std::string same_bits_are_kept(Values const& values);

}  // namespace zeroth::config
