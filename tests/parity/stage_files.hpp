// SPDX-License-Identifier: Apache-2.0
/// The stage files that must all train the same: dtypes, reduction rules, buckets, slots, prefetch, overlap.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "support/dtype_sets.hpp"

namespace zeroth::testing {

inline constexpr Types all_types[] = {
    fp32_types,
    bf16_types,
    fp16_types,
    {"bf16 with fp32 gradients", R"("bf16": {"enabled": true},)", R"("gradient_dtype": "fp32", )"},
    {"fp32 reduced in bf16", R"("communication_data_type": "bf16",)"},
    bf16_reduced_in_fp32,
    bf16_masters,
    bf16_masters_and_moments,
};

struct Movement {
  std::int64_t bucket, prefetch;
  int gradient_slots;
  bool overlap;
};
inline constexpr Movement movements[] = {
    {500'000'000, 50'000'000, 2, true},
    {1, 0, 1, false},
    {1500, 1000, 4, true},
    {3000, 1, 3, false},
};

inline std::string file(Types const& types, int stage, int accumulation, char const* reduce, Movement const& move,
                        std::string const& more = "",
                        char const* optimizer = R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})") {
  return fmt::format(R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {}, {} "gradient_clipping": 0.5,
    "zero_optimization": {{"stage": {}, "reduce_bucket_size": {}, "stage3_prefetch_bucket_size": {}, "overlap_comm": {}}},
    "optimizer": {{ {} }},
    "scheduler": {{"type": "WarmupLR", "params": {{"warmup_num_steps": 3}}}},
    "zeroth": {{ {} "reduce_gradients": "{}", "gradient_slots": {}, "timeout_ms": 120000 {} }} }})",
                     accumulation, types.keys, stage, move.bucket, move.prefetch, move.overlap, optimizer,
                     types.keys_of_ours, reduce, move.gradient_slots, more);
}

}  // namespace zeroth::testing
