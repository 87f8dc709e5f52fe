// SPDX-License-Identifier: Apache-2.0
/// Recorded steps with random stage files. A failure prints the seed; the environment variable ZEROTH_SEED repeats the
/// run.
#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "cuda/expected_graphs.hpp"
#include "jobs/random.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace zeroth::testing {
namespace {

using jobs::Random;

struct DrawnGraphs {
  int world;
  std::int64_t batch;
  std::string file;
  GraphPlan plan;
};

std::string drawn_keys(Random& random, int stage, int world) {
  std::string zero, zeroth, more;
  auto const maybe = [&random](std::string& to, std::string const& keys, std::size_t once_in = 3) {
    if (random.once_in(once_in)) {
      to += ", " + keys;
    }
  };
  char const* const dtypes[] = {"", R"(, "bf16": {"enabled": true})",
                                R"(, "fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 3})",
                                R"(, "fp16": {"enabled": true, "loss_scale": 64})"};
  more += random.among(dtypes);
  maybe(more, R"("communication_data_type": "fp32")");
  maybe(more, R"("gradient_clipping": 0.3)", 2);
  maybe(more, R"("scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 4, "total_num_steps": 10}})");
  maybe(zero, fmt::format(R"("overlap_comm": {})", random.once_in(2)), 2);
  maybe(zero, fmt::format(R"("reduce_bucket_size": {})", 64 + random.below(1000)), 2);
  maybe(zeroth, fmt::format(R"("reduce_gradients": "{}")", random.once_in(2) ? "every_micro_step" : "last_micro_step"));
  maybe(zeroth, R"("ema": {"decay": 0.9})");
  char const* const codecs[] = {"", R"(, "reduce_codec": "int8")", R"(, "reduce_codec": "exact")",
                                R"(, "reduce_codec": "exact", "same_bits_at_any_ranks": true)"};
  zeroth += codecs[random.once_in(2) ? 0 : random.below(std::size(codecs))];
  if (stage == 3) {
    maybe(zero, fmt::format(R"("stage3_prefetch_bucket_size": {})", random.below(1200)), 2);
    maybe(zero, fmt::format(R"("stage3_param_persistence_threshold": {})", 200 + random.below(200)));
    maybe(zero, R"("stage3_max_live_parameters": 700)");
    maybe(zeroth, R"("gather_codec": "int8")", 5);
    if (world == 4) {
      maybe(zero, R"("zero_hpz_partition_size": 2)");
      maybe(zero, R"("mics_shard_size": 2)");
    }
  }
  return fmt::format(
      R"("zero_optimization": {{"stage": {} {}}}, "zeroth": {{"poison": true, "timeout_ms": 120000 {}}} {})", stage,
      zero, zeroth, more);
}

DrawnGraphs drawn(std::uint64_t seed) {
  Random random{seed, "graphs"};
  auto const world = static_cast<int>(1 + random.below(4));
  auto const stage = static_cast<int>(random.below(4));
  auto const micro_batch = 1 + random.below(2), accumulation = 1 + random.below(3);
  char const* const optimizers[] = {R"("AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})",
                                    R"("Lion", "params": {"lr": 0.001})",
                                    R"("SGD", "params": {"lr": 0.01, "momentum": 0.9})",
                                    R"("Lamb", "params": {"lr": 0.01})", R"("Adagrad", "params": {"lr": 0.01})"};
  auto const file = fmt::format(R"({{"train_micro_batch_size_per_gpu": {}, "gradient_accumulation_steps": {},
                                     "optimizer": {{"type": {}}}, {}}})",
                                micro_batch, accumulation, random.among(optimizers), drawn_keys(random, stage, world));
  auto const batch = static_cast<std::int64_t>(micro_batch * accumulation) * world;
  GraphPlan plan{.first_recorded = static_cast<int>(2 + random.below(3)), .disturbs = random.once_in(3)};
  if (random.once_in(3)) {
    auto const begin = static_cast<std::int64_t>(3 + random.below(7)) * batch;
    plan.overflow = {begin, begin + 1};
  }
  return {world, batch, file, plan};
}

/// nullopt if the stage file is rejected.
std::optional<Config> config_of(DrawnGraphs const& graphs) {
  try {
    auto const config = Config::from_json(graphs.file);
    SmallModel const small;
    static_cast<void>(plan(small.model, config, graphs.world));
    return config;
  } catch (ConfigError const&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("steps recorded with random stage files have the bits of steps that are not") {
  int const most = sparse_grids() ? 4 : 16;
  int rejected = 0;
  for (int trained = 0; trained < most;) {
    auto const seed = fresh_seed();
    auto const graphs = drawn(seed);
    auto const config = config_of(graphs);
    if (!config) {
      REQUIRE(++rejected < 20 * most);
      continue;
    }
    ++trained;
    INFO(fmt::format("ZEROTH_SEED={}, {} ranks, first recorded {}, disturbs {}, overflow at {}: {}", seed, graphs.world,
                     graphs.plan.first_recorded, graphs.plan.disturbs, graphs.plan.overflow.begin, graphs.file));
    auto const run = [&](GraphPlan const& plan, unsigned delays) {
      return run_anew({.gpus = graphs.world, .delays = delays}, *config, graphs.batch, plan);
    };
    expect_same(run(graphs.plan, static_cast<unsigned>(1 + seed % 99)), run(eager(graphs.plan), 0));
  }
}

}  // namespace zeroth::testing
