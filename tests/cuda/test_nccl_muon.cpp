// SPDX-License-Identifier: Apache-2.0
/// Muon on GPUs whose ranks communicate by NCCL.
#include <fmt/format.h>

#include "cuda/muon_training.hpp"
#include "cuda/nccl_ranks.hpp"

namespace zeroth::testing {

TEST_CASE("Muon over NCCL: stages are bit-equal") {
  RunJob const over_nccl = [](int ranks, std::function<void(Job&)> const& rank_main) {
    return run_nccl_job(ranks, rank_main, ranks);
  };
  std::vector<std::uint32_t> base;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    begin_nccl({.gpus = 3, .delays = 3});
    auto const bits = bits_of(trained_matrices(over_nccl, 3, muon_file(bf16_types, stage, 1)));
    REQUIRE(left_over() == "");
    base = stage == 0 ? bits : base;
    REQUIRE(bits == base);
  }
}

}  // namespace zeroth::testing
