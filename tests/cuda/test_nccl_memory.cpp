// SPDX-License-Identifier: Apache-2.0
/// Like test_memory.cpp, with NCCL: its contexts, and memory from its allocator.
#include <algorithm>
#include <memory>

#include "cuda/grown_memory.hpp"
#include "cuda/nccl_ranks.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

/// The memory that an allocation of one byte takes.
std::int64_t granularity() {
  auto const device = device::make_cuda_device(0, device::CudaBuffers::registrable);
  static_cast<void>(device->compute());
  auto const before = bytes_in_use();
  auto const memory = device->allocate(device::Category::slots, 1);
  return bytes_in_use() - before;
}

}  // namespace

TEST_CASE("with NCCL, too, the memory use that the driver reports grows by the planned amount") {
  for (int stage = 0; stage <= 3; ++stage) {
    begin_nccl_on({});
    auto const part = granularity();
    auto const run = [](int ranks, auto const& rank_main) { return run_nccl_job(ranks, rank_main); };
    auto const grown = measure_growth(run, 1, stage);
    INFO(tell(grown, "nccl", 1, stage, part));
    // Both engines hold the same besides their states.
    auto const more_planned = grown.planned - grown.planned_small;
    auto const more_in_use = grown.states - grown.communicators - grown.planned_small;
    auto const rounded = most_arenas * std::max(piece, part);
    CHECK(more_in_use >= more_planned - rounded);
    CHECK(more_in_use <= more_planned + rounded);
    CHECK(left_over() == "");
  }
}

}  // namespace zeroth::testing
