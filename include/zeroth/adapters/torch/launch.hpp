// SPDX-License-Identifier: Apache-2.0
/// Starts the ranks of a libtorch program.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "zeroth/adapters/torch/errors.hpp"
#include "zeroth/adapters/torch/heap.hpp"
#include "zeroth/engine/engine.hpp"

namespace zeroth::torch_adapter {

/// Like zeroth::launch(), but reports libtorch's errors without their backtrace. If there are several ranks, each
/// computes on one thread unless OMP_NUM_THREADS is set, as under torchrun.
template <class F>
  requires std::invocable<F const&, Job&>
[[nodiscard]] int launch(LaunchOptions const& options, F const& rank_main) {
  return zeroth::launch(options, [&](Job& job) {
    if (job.world() > 1 && std::getenv("OMP_NUM_THREADS") == nullptr) {  // NOLINT(concurrency-mt-unsafe): only read
      at::set_num_threads(1);
    }
    detail::without_backtrace([&] { rank_main(job); });
  });
}

namespace detail {

/// One per process, whatever is made, because the process has one libtorch generator.
[[nodiscard]] inline std::recursive_mutex& generator_turns() noexcept {
  static std::recursive_mutex turns;
  return turns;
}

}  // namespace detail

/// Returns what `make` makes, with libtorch's generator started at `seed`: the same module on all ranks. Ranks that are
/// threads share that generator, so they take turns. `make` must not call anything collective, but may call seeded()
/// itself. Not collective.
template <class F>
[[nodiscard]] auto seeded(std::uint64_t seed, F const& make) {
  std::lock_guard const lock{detail::generator_turns()};
  ::torch::manual_seed(seed);
  detail::keep_values_apart();
  return make();
}

}  // namespace zeroth::torch_adapter
