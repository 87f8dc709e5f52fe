// SPDX-License-Identifier: Apache-2.0
/// The training of ranks that communicate by NCCL, in tests with processes, and its result in one word.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "support/synthetic.hpp"

namespace zeroth::testing {

inline Config nccl_training(int stage) {
  return Config::from_json(fmt::format(R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
    "zero_optimization": {{"stage": {}, "reduce_bucket_size": 1500, "stage3_prefetch_bucket_size": 1000,
                           "overlap_comm": true}},
    "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
    "zeroth": {{"timeout_ms": 120000}} }})",
                                       stage));
}

/// Losses, norms and parameters to the last bit: "trained 5630 numbers to 0123456789abcdef".
inline std::string outcome_word(Trained const& trained) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  auto const bits = bits_of(trained);
  for (auto const each : bits) {
    hash = (hash ^ each) * 0x100000001b3U;
  }
  return fmt::format("trained {} numbers to {:016x}", bits.size(), hash);
}

}  // namespace zeroth::testing
