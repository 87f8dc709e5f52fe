// SPDX-License-Identifier: Apache-2.0
/// The resident memory of this process is as planned, and little more.
#include <malloc.h>

#include <algorithm>
#include <barrier>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/resident.hpp"

namespace zeroth::testing {
namespace {

constexpr int units = 20;
constexpr std::int64_t side = 1000;  // a million parameters each

struct LargeModel {
  Model model;
  std::vector<Unit> blocks;
  std::vector<Param<2>> weights;
  LargeModel() {
    for (int u = 0; u < units; ++u) {
      auto const name = fmt::format("block{}", u);
      blocks.push_back(model.unit(name));
      weights.push_back(model.param(blocks.back(), name + ".w", {side, side}, Uniform{-1, 1}));
    }
  }
};

template <Element T>
void micro_step(MicroStep<T, T>& micro, LargeModel const& large) {
  for (auto const block : large.blocks) {
    auto const p = micro.forward(block);
  }
  float const seed = micro.report_loss(1);
  for (auto u = large.blocks.size(); u-- > 0;) {
    auto const p = micro.backward(large.blocks[u]);
    auto const gradient = p.grad(large.weights[u]);
    std::fill_n(gradient.data(), side * side, from_float<T>(gradient.beta() + seed));
  }
}

struct Growth {
  std::int64_t planned = 0;
  std::int64_t most = 0;        ///< Maximum at the end of a pass, over three steps.
  std::int64_t with_files = 0;  ///< While weights were saved and loaded.
  std::int64_t with_save = 0;   ///< After a checkpoint was saved; `staging` of it is planned.
  std::int64_t staging = 0;
};

/// Growth of the process from before the engines were built.
template <Element T>
Growth train(int world, Config const& config) {
  LargeModel const large;
  Growth growth;
  malloc_trim(0);
  auto const before = resident_bytes();
  std::barrier<> together{world};
  Folder const folder;
  auto const file = folder.path() / "weights.safetensors";
  bool forgotten = false;
  auto const outcome = run_job(world, [&](Job& job) {
    Engine<T> engine{job, large.model, config};
    auto const measure = [&] {
      together.arrive_and_wait();
      if (job.rank() == 0) {
        growth.most = std::max(growth.most, resident_bytes() - before);
      }
      together.arrive_and_wait();
    };
    measure();
    for (int step = 0; step < 3; ++step) {
      for (auto micro : engine.micro_steps()) {
        micro_step(micro, large);
        measure();
      }
      engine.step();
      measure();
    }
    engine.finish();
    if (job.rank() == 0) {
      forgotten = forget_peak();
    }
    together.arrive_and_wait();
    engine.save_weights(file);
    engine.load_weights(file);
    together.arrive_and_wait();
    if (job.rank() == 0) {
      growth.with_files = peak_resident_bytes() - before;
      growth.planned = world * engine.planned().total();
    }
    together.arrive_and_wait();  // a save allocates memory
    engine.save(folder / "saved").wait();
    together.arrive_and_wait();
    if (job.rank() == 0) {
      growth.with_save = resident_bytes() - before;
      growth.staging = world * plan(large.model, config, world).staging_bytes;
    }
    together.arrive_and_wait();
  });
  REQUIRE(messages_of(outcome) == "");
  REQUIRE(forgotten);
  return growth;
}

}  // namespace

TEST_CASE("a process of two ranks grows by two plans plus at most 8 MiB, also with saves and loads") {
  constexpr std::int64_t slack = std::int64_t{8} << 20U;  // thread stacks, queues, records, and memory that malloc
                                                          // keeps
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool const narrow : {false, true}) {
      auto const zero = std::string{R"(, "stage3_prefetch_bucket_size": 2000000, "reduce_bucket_size": 4000000)"};
      auto const more = narrow ? R"(, "bf16": {"enabled": true})" : "";
      auto const* const zeroth = R"(, "checkpoint": {"buffer_bytes": 25165824})";
      auto const config = small_config(stage, {.accumulation = 2, .zero = zero, .zeroth = zeroth, .more = more});
      auto const growth = narrow ? train<bf16>(2, config) : train<float>(2, config);
      INFO(fmt::format("stage {}, {}: planned {} MiB, grew by {} MiB, with files {} MiB, once saved {} MiB", stage,
                       narrow ? "bf16" : "fp32", growth.planned >> 20U, growth.most >> 20U, growth.with_files >> 20U,
                       growth.with_save >> 20U));
      CHECK(growth.most <= growth.planned + slack);
      // All of it is used: untouched pages are not resident.
      CHECK(growth.most >= growth.planned - growth.planned / 50);
      // No rank holds a whole model (76 MiB) to save or load it.
      CHECK(growth.with_files >= growth.most - slack);
      CHECK(growth.with_files <= growth.planned + slack);
      CHECK(growth.staging == 2 * 25165824);
      CHECK(growth.with_save <= growth.planned + growth.staging + slack);
      CHECK(growth.with_save >= growth.most + growth.staging - slack);
    }
  }
}

}  // namespace zeroth::testing
