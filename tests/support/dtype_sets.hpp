// SPDX-License-Identifier: Apache-2.0
/// Sets of dtypes for tests of training.
#pragma once

namespace zeroth::testing {

/// Keys of a stage file that select the dtypes, each followed by a comma.
struct Types {
  char const* name;
  char const* keys;
  char const* keys_of_ours = "";  ///< In the section `zeroth`.
};
inline constexpr Types fp32_types{"fp32", ""};
inline constexpr Types bf16_types{"bf16", R"("bf16": {"enabled": true},)"};
inline constexpr Types fp16_types{"fp16",
                                  R"("fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 2},)"};
inline constexpr Types bf16_reduced_in_fp32{"bf16 reduced in fp32",
                                            R"("bf16": {"enabled": true}, "communication_data_type": "fp32",)"};
inline constexpr Types bf16_masters{"bf16 masters",
                                    R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true},)"};
inline constexpr Types bf16_masters_and_moments{
    "bf16 masters and moments",
    R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true},)"};

/// These differ from those without the key only if gradients are reduced in the last micro-step alone.
inline constexpr Types bf16_summed_in_fp32{"bf16 summed up in fp32",
                                           R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},)"};
inline constexpr Types fp16_summed_in_fp32{
    "fp16 summed up in fp32",
    R"("fp16": {"enabled": true, "initial_scale_power": 4}, "data_types": {"grad_accum_dtype": "fp32"},)"};
inline constexpr Types bf16_summed_and_reduced_in_fp32{
    "bf16 summed up and reduced in fp32",
    R"("bf16": {"enabled": true}, "communication_data_type": "fp32", "data_types": {"grad_accum_dtype": "fp32"},)"};

}  // namespace zeroth::testing
