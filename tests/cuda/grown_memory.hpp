// SPDX-License-Identifier: Apache-2.0
/// The memory that the driver reports as used, while engines of known size are built and destroyed.
#pragma once
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/contribute.hpp"
#include "cuda/gpus.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"

namespace zeroth::testing {

inline constexpr std::int64_t mib = std::int64_t{1} << 20U;
#ifdef ZEROTH_ON_GPU
inline constexpr std::int64_t piece = 2 * mib;          // unit in which the driver allocates memory
inline constexpr std::int64_t all_elements = 16 * mib;  // 256 MiB of states in all at stage 0
#else
inline constexpr std::int64_t piece = 4096;  // blocks that are not aligned are requested twice
inline constexpr std::int64_t all_elements = mib / 4;
#endif
/// Maximum number of a rank's arenas, each of which ends in a piece that is not full: one per category, and two for
/// scratch.
inline constexpr std::int64_t most_arenas = 8;

[[nodiscard]] inline std::int64_t bytes_in_use() {
  std::size_t free = 0, total = 0;
  if (auto const error = cudaMemGetInfo(&free, &total); error != cudaSuccess) {
    throw std::runtime_error{std::string{"cudaMemGetInfo: "} + cudaGetErrorString(error)};
  }
  return static_cast<std::int64_t>(total - free);
}

/// Memory in use on one GPU, in bytes.
struct Grown {
  std::int64_t before = 0;         ///< Before any rank started: the GPU's context, and other programs.
  std::int64_t contexts = 0;       ///< After a small engine was destroyed: kernels, streams, events and the job's
                                   ///< communicators.
  std::int64_t communicators = 0;  ///< Bytes of the small engine besides its states.
  std::int64_t states = 0;         ///< Bytes of the large engine, over all ranks, with its communicators.
  std::int64_t planned_small = 0, planned = 0;  ///< Planned for all ranks.
};

struct FourUnits {
  Model model;
  std::vector<Unit> units;
  std::vector<Param<1>> weights;

  explicit FourUnits(std::int64_t count) {
    for (int u = 0; u < 4; ++u) {
      units.push_back(model.unit(fmt::format("unit {}", u)));
      weights.push_back(model.param(units.back(), fmt::format("weight {}", u), {count}, Constant{0.5F}));
    }
  }
  void two_steps(Engine<bf16>& engine) const {
    for (int step = 0; step < 2; ++step) {
      for (auto micro : engine.micro_steps()) {
        for (auto const unit : units) {
          auto const p = micro.forward(unit);
        }
        float const seed = micro.report_loss(1);
        for (auto u = units.size(); u-- > 0;) {
          auto const p = micro.backward(units[u]);
          enqueue_contribution(p, weights[u], micro.first_sample(), seed, cuda_stream(engine));
        }
      }
      static_cast<void>(engine.step());
    }
    engine.finish();
  }
};

/// `run(world, rank_main)` runs a job on one GPU, of engines of FourUnits. All ranks count at the same time.
template <class Run>
[[nodiscard]] Grown measure_growth(Run const& run, int world, int stage) {
  Grown grown;
  std::barrier<> together{world};
  std::vector<std::int64_t> planned_small(static_cast<std::size_t>(world)), planned(planned_small.size());
  auto const config = Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": {}}} }})",
      stage));
  std::int64_t with_small = 0, with_contexts = 0;
  auto const steps = [&](Job& job, std::int64_t count, auto const& measure) {
    FourUnits const four{count};
    Engine<bf16> engine{job, four.model, config};
    four.two_steps(engine);
    together.arrive_and_wait();
    measure(engine);
    together.arrive_and_wait();
  };
  grown.before = bytes_in_use();
  auto const outcome = run(world, [&](Job& job) {
    auto const rank = static_cast<std::size_t>(job.rank());
    auto const into = [&](std::int64_t& in_use, std::vector<std::int64_t>& plans) {
      return [&](auto& engine) {
        plans[rank] = engine.planned().total();
        if (rank == 0) {
          in_use = bytes_in_use();
        }
      };
    };
    std::int64_t with_large = 0;
    steps(job, 1000, into(with_small, planned_small));
    together.arrive_and_wait();
    if (rank == 0) {
      with_contexts = bytes_in_use();
    }
    together.arrive_and_wait();
    steps(job, all_elements / 4, into(with_large, planned));
    if (rank == 0) {
      grown.states = with_large - with_contexts;
    }
  });
  REQUIRE(messages_of(outcome) == "");
  for (std::size_t rank = 0; rank < planned.size(); ++rank) {
    grown.planned_small += planned_small[rank];
    grown.planned += planned[rank];
  }
  grown.contexts = with_contexts - grown.before;
  grown.communicators = with_small - with_contexts - grown.planned_small;
  return grown;
}

/// Prints it, and appends it as a line of JSON to the file that the environment variable ZEROTH_MEMORY_FIGURES names.
/// `granularity`: unit in which the communicator's allocator hands out memory; 0 if it has no allocator.
inline std::string tell(Grown const& grown, std::string const& communicator, int world, int stage,
                        std::int64_t granularity = 0) {
  auto const in_mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(mib); };
  auto text = fmt::format(
      "{}, {} ranks on one GPU, stage {}: {:.1f} MiB in use, {:.1f} more for kernels, streams, events and the job's "
      "communicators, {:.1f} for a small engine's communicators and what is rounded up, {:.1f} for a large engine, of "
      "which {:.1f} were planned; memory for registration comes in {:.3f}",
      communicator, world, stage, in_mib(grown.before), in_mib(grown.contexts), in_mib(grown.communicators),
      in_mib(grown.states), in_mib(grown.planned), in_mib(granularity));
  std::cout << text << '\n';
  if (char const* const path = std::getenv("ZEROTH_MEMORY_FIGURES"); path != nullptr) {
    std::ofstream file{path, std::ios::app};
    file << fmt::format(
        R"({{"communicator": "{}", "ranks": {}, "stage": {}, "before_bytes": {}, "contexts_bytes": {}, )"
        R"("communicators_bytes": {}, "grown_bytes": {}, "planned_bytes": {}, "granularity_bytes": {}}})",
        communicator, world, stage, grown.before, grown.contexts, grown.communicators, grown.states, grown.planned,
        granularity);
    file << '\n' << std::flush;
    if (!file) {
      throw std::runtime_error{fmt::format("ZEROTH_MEMORY_FIGURES: cannot write {}", path)};
    }
  }
  return text;
}

}  // namespace zeroth::testing
