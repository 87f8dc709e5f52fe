// SPDX-License-Identifier: Apache-2.0
/// train_gpt's loop over the tests' own NCCL.
#pragma once
#include <functional>

#include "cuda/nccl_ranks.hpp"
#include "examples/gpu/training.hpp"

namespace gpt::testing {

/// Runs each rank as a thread with a GPU of its own.
inline Left over_nccl(Run const& run, unsigned delays = 0, Folder const& folder = {}) {
  zeroth::testing::begin_nccl_on({.count = run.ranks, .delays = delays});
  auto left = train_in(
      folder, run,
      [](int world, std::function<void(zeroth::Job&)> const& rank_main) {
        return zeroth::testing::run_nccl_job(world, rank_main, world);
      },
      train_on_gpu);
  CHECK(zeroth::testing::left_over() == "");
  return left;
}

}  // namespace gpt::testing
