// SPDX-License-Identifier: Apache-2.0
/// Ranks of a libtorch program.
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

/// As zeroth::launch(), with libtorch's errors in libtorch's words, without its backtrace. Of several ranks each
/// computes on one thread, unless OMP_NUM_THREADS says otherwise: torchrun does the same.
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

/// One for the process, whatever is made: libtorch's generator is one, too.
[[nodiscard]] inline std::recursive_mutex& generator_turns() noexcept {
  static std::recursive_mutex turns;
  return turns;
}

}  // namespace detail

/// What `make` makes when libtorch's generator starts at `seed`: the same module on all ranks. Ranks that are threads
/// share that generator, so they take turns, whatever
/// they make: `make` calls nothing collective, but may call seeded() itself. Not collective.
template <class F>
[[nodiscard]] auto seeded(std::uint64_t seed, F const& make) {
  std::lock_guard const lock{detail::generator_turns()};
  ::torch::manual_seed(seed);
  detail::keep_values_apart();
  return make();
}

}  // namespace zeroth::torch_adapter
