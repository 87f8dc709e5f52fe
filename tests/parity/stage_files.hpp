/// The stage files that must all train the same: dtypes, reduction rules, buckets, slots, prefetch, overlap.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace zeroth::testing {

struct Types {
  char const* name;
  char const* keys;
  char const* keys_of_ours = "";  ///< In the section `zeroth`.
};
inline constexpr Types all_types[] = {
    {"fp32", ""},
    {"bf16", R"("bf16": {"enabled": true},)"},
    {"fp16", R"("fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 2},)"},
    {"bf16 with fp32 gradients", R"("bf16": {"enabled": true},)", R"("gradient_dtype": "fp32", )"},
    {"fp32 reduced in bf16", R"("communication_data_type": "bf16",)"},
    {"bf16 reduced in fp32", R"("bf16": {"enabled": true}, "communication_data_type": "fp32",)"},
    {"bf16 masters", R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true},)"},
    {"bf16 masters and moments",
     R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true},)"},
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
                        std::string const& more = "") {
  return fmt::format(R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {}, {} "gradient_clipping": 0.5,
    "zero_optimization": {{"stage": {}, "reduce_bucket_size": {}, "stage3_prefetch_bucket_size": {}, "overlap_comm": {}}},
    "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
    "scheduler": {{"type": "WarmupLR", "params": {{"warmup_num_steps": 3}}}},
    "zeroth": {{ {} "reduce_gradients": "{}", "gradient_slots": {}, "timeout_ms": 20000 {} }} }})",
                     accumulation, types.keys, stage, move.bucket, move.prefetch, move.overlap, types.keys_of_ours,
                     reduce, move.gradient_slots, more);
}

}  // namespace zeroth::testing
