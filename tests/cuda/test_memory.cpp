/// What the driver says is in use grows by what was planned, and by contexts, which are measured beforehand.
#include <fmt/format.h>

#include <barrier>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/contribute.hpp"
#include "cuda/gpus.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20U;
#ifdef ZEROTH_ON_GPU
constexpr std::int64_t piece = 2 * mib;          // in which the driver hands out memory
constexpr std::int64_t all_elements = 16 * mib;  // 256 MiB of states in all at stage 0
#else
constexpr std::int64_t piece = 4096;  // blocks are asked for twice where they are not aligned
constexpr std::int64_t all_elements = mib / 4;
#endif
/// Arenas of a rank at most, each of which ends in a piece that is not full: one per category, and scratch twice.
constexpr std::int64_t most_arenas = 8;

std::int64_t bytes_in_use() {
  std::size_t free = 0, total = 0;
  if (auto const error = cudaMemGetInfo(&free, &total); error != cudaSuccess) {
    throw std::runtime_error{std::string{"cudaMemGetInfo: "} + cudaGetErrorString(error)};
  }
  return static_cast<std::int64_t>(total - free);
}

struct Grown {
  std::int64_t before = 0;    ///< In use before the first engine, with the GPU's context, by whomever.
  std::int64_t contexts = 0;  ///< Kernels, streams and events: by the first engine, which is small and gone.
  std::int64_t states = 0;    ///< By the second one, of all ranks.
  std::int64_t planned = 0;
};

/// `units` of so many elements each, on `world` ranks of one GPU. All ranks count at the same time.
Grown train(int world, int stage, std::int64_t elements) {
  Grown grown;
  std::barrier<> together{world};
  std::vector<std::int64_t> planned(static_cast<std::size_t>(world));
  auto const config = Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": {}}} }})",
      stage));
  std::int64_t with_contexts = 0;
  auto const steps = [&](Job& job, std::int64_t count, auto const& measure) {
    Model model;
    std::vector<Unit> units;
    std::vector<Param<1>> weights;
    for (int u = 0; u < 4; ++u) {
      units.push_back(model.unit(fmt::format("unit {}", u)));
      weights.push_back(model.param(units.back(), fmt::format("weight {}", u), {count}, Constant{0.5F}));
    }
    Engine<bf16> engine{job, model, config};
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
    together.arrive_and_wait();
    measure(engine);
    together.arrive_and_wait();
  };
  auto const outcome = run_job(
      world,
      [&](Job& job) {
        auto const rank = static_cast<std::size_t>(job.rank());
        steps(job, 1000, [](auto&) {});  // contexts, kernels, events
        together.arrive_and_wait();
        if (rank == 0) {
          with_contexts = bytes_in_use();
        }
        together.arrive_and_wait();
        steps(job, elements, [&](auto& engine) {
          planned[rank] = engine.planned().total();
          if (rank == 0) {
            grown.states = bytes_in_use() - with_contexts;
          }
        });
      },
      {},
      [&](int rank) {
        if (rank == 0 && grown.before == 0) {
          grown.before = bytes_in_use();
        }
        return device::make_cuda_device(0);
      });
  REQUIRE(messages_of(outcome) == "");
  grown.contexts = with_contexts - grown.before;
  for (auto const bytes : planned) {
    grown.planned += bytes;
  }
  return grown;
}

}  // namespace

TEST_CASE("the memory that the driver reports grows by what was planned") {
  for (int const world : {1, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      begin_on({});
      auto const grown = train(world, stage, all_elements / 4);
      auto const in_mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(mib); };
      auto const text = fmt::format(
          "{} ranks on one GPU, stage {}: {:.1f} MiB in use, {:.1f} more for kernels, streams and events, {:.1f} more "
          "for "
          "states, of which {:.1f} were planned",
          world, stage, in_mib(grown.before), in_mib(grown.contexts), in_mib(grown.states), in_mib(grown.planned));
      std::cout << text << '\n';
      INFO(text);
      CHECK(grown.states >= grown.planned);
      CHECK(grown.states <= grown.planned + world * most_arenas * piece);
      CHECK(left_on_gpus() == "");
    }
  }
}

}  // namespace zeroth::testing
