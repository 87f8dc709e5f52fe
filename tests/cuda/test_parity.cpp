// SPDX-License-Identifier: Apache-2.0
/// Ranks on a GPU train as ranks on the CPU do, bit for bit: at every stage, dtype and movement of states.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "cuda/cuda_access.hpp"
#include "cuda/gpus.hpp"
#include "cuda/trained.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

Types const all_types[] = {fp32_types,
                           bf16_types,
                           fp16_types,
                           bf16_summed_in_fp32,
                           bf16_reduced_in_fp32,
                           bf16_masters,
                           bf16_masters_and_moments};

struct Movement {
  std::int64_t bucket, prefetch;
  int gradient_slots;
  bool overlap;
};
Movement const movements[] = {{500'000'000, 50'000'000, 2, true}, {1, 0, 1, false}, {1500, 1000, 4, true}};

std::string file(Types const& types, int stage, int accumulation, Movement const& move, std::string const& more = "",
                 char const* optimizer = R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})") {
  return fmt::format(R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {}, {} "gradient_clipping": 0.5,
    "zero_optimization": {{"stage": {}, "reduce_bucket_size": {}, "stage3_prefetch_bucket_size": {}, "overlap_comm": {}}},
    "optimizer": {{ {} }},
    "zeroth": {{ "gradient_slots": {}, "timeout_ms": 120000 {} }} }})",
                     accumulation, types.keys, stage, move.bucket, move.prefetch, move.overlap, optimizer,
                     move.gradient_slots, more);
}

/// All ranks on one GPU, or one on each of two.
Trained train_on_gpu(int world, std::string const& text, Gpus const& gpus, TrainOptions options = {}) {
  begin_on(gpus);
  options.access = CudaAccess::make;
  auto result =
      train_by(threads_on([&](int rank) { return device::make_cuda_device(rank % gpus.count); }), world, text, options);
  REQUIRE(left_on_gpus() == "");
  return result;
}

}  // namespace

TEST_CASE("ranks on one GPU give the CPU's bits") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 2, 4}) {
      static Sample sample{11, 5};
      if (sample.leaves_out()) {
        continue;
      }
      auto const base = train_on_cpu(world, file(types, stage, 2, movements[0]));
      REQUIRE(base.reports.size() == 4);
      for (auto const& move : movements) {
        INFO(fmt::format("{} ranks, {}, stage {}, bucket {}, overlap {}", world, types.name, stage, move.bucket,
                         move.overlap));
        if (world == 2 || &move == &movements[stage % 3]) {
          auto const text = file(types, stage, 2, move, R"(, "poison": true)");
          REQUIRE(bits_of(train_on_gpu(world, text, {})) == bits_of(base));
        }
      }
    }
  }
}

TEST_CASE("ranks on one GPU give the CPU's bits where signs travel") {
  for (auto const& types : {fp32_types, bf16_types, bf16_summed_in_fp32}) {
    auto const signs = file(types, 1, 2, movements[0], R"(, "reduce_codec": "sign")");
    auto one_bit = file(types, 0, 2, movements[2], "", testing::kernel_rules().back().optimizer);
    std::string const clipped = R"("gradient_clipping": 0.5)";
    one_bit.replace(one_bit.find(clipped), clipped.size(), R"("gradient_clipping": 0)");
    for (auto const& text : {signs, one_bit}) {
      INFO(types.name << ": " << text);
      CHECK(bits_of(train_on_gpu(2, text, {})) == bits_of(train_on_cpu(2, text)));
    }
  }
}

TEST_CASE("ranks in groups on a GPU give the bits of the CPU without groups") {
  auto const types = GENERATE_COPY(all_types[0], all_types[1], all_types[6]);
  for (auto const& [stage, keys] : {std::pair{3, R"(, "zero_hpz_partition_size": 2)"},
                                    {3, R"(, "mics_shard_size": 2)"},
                                    {1, R"(, "mics_shard_size": 2)"}}) {
    static Sample sample{11, 5};
    if (sample.leaves_out()) {
      continue;
    }
    INFO(fmt::format("{}, stage {}{}", types.name, stage, keys));
    auto const flat = file(types, stage, 2, movements[stage % 3], R"(, "poison": true)");
    REQUIRE(bits_of(train_on_gpu(4, with_zero_keys(flat, keys), {.delays = 5})) == bits_of(train_on_cpu(4, flat)));
    auto const more = R"(, "two_level_sums": true, "group_size": 2)";
    auto const two_levels = file(types, stage, 2, movements[1], more);
    REQUIRE(bits_of(train_on_gpu(4, with_zero_keys(two_levels, keys), {})) == bits_of(train_on_cpu(4, two_levels)));
  }
}

TEST_CASE("delayed updates have the CPU's bits on a GPU, also with late work on some streams") {
  for (int stage = 0; stage <= 2; ++stage) {
    auto const& types = all_types[stage];
    INFO(fmt::format("{}, stage {}", types.name, stage));
    auto const* const late = R"(, "delayed_update": true, "poison": true)";
    auto const base = train_on_cpu(3, file(types, stage, 2, movements[1], late));
    CHECK(bits_of(train_on_gpu(3, file(types, stage, 2, movements[0], late), {})) == bits_of(base));
    CHECK(bits_of(train_on_gpu(3, file(types, stage, 2, movements[2], late), {.delays = 7})) == bits_of(base));
  }
}

TEST_CASE("every optimizer gives the CPU's bits on a GPU") {
  auto const rule = GENERATE(from_range(trained_rules()));
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& types = all_types[stage % 2 == 0 || !has_bf16_states(rule) ? 1 : 6];
    static Sample sample{7, 3};
    if (sample.leaves_out()) {
      continue;
    }
    INFO(fmt::format("{}, {}, stage {}", rule.name, types.name, stage));
    auto const text = file(types, stage, 2, movements[stage % 3], "", rule.optimizer);
    REQUIRE(bits_of(train_on_gpu(2, text, {})) == bits_of(train_on_cpu(2, text)));
  }
}

TEST_CASE("an engine on a GPU rejects a program's own rule by name", "[host]") {
  auto const config = Config::from_json(file(fp32_types, 1, 1, movements[0], "", "")).with(own_momentum());
  begin_on({});
  auto const run = threads_on([](int) { return device::make_cuda_device(0); });
  auto const outcome = run(1, [&](Job& job) { static_cast<void>(train_synthetic(job, config)); });
  CHECK_THAT(messages_of(outcome), Catch::Contains("own momentum") && Catch::Contains("is for CPUs"));
}

TEST_CASE("late work on some streams changes nothing") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    auto const text = file(all_types[0], stage, 2, movements[2], R"(, "poison": true)");
    REQUIRE(bits_of(train_on_gpu(3, text, {.delays = 7})) == bits_of(train_on_cpu(3, text)));
  }
}

/// Every micro-step's backward runs on a new thread. Concurrent calls of two threads would be reported.
void expect_same_with_backward_on_new_threads(int world, Gpus const& gpus) {
  TrainOptions options;
  options.backward_by = on_new_thread;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {} on {} GPUs", stage, gpus.count));
    auto const text = file(all_types[1], stage, 2, movements[2], R"(, "poison": true, "check": true)");
    REQUIRE(bits_of(train_on_gpu(world, text, gpus, options)) == bits_of(train_on_cpu(world, text)));
  }
}

TEST_CASE("backward on a new thread for each micro-step changes nothing on a GPU", "[host]") {
  expect_same_with_backward_on_new_threads(3, {.delays = 11});
}

TEST_CASE("backward on a new thread for each micro-step changes nothing on two GPUs", "[two GPUs][host]") {
  expect_same_with_backward_on_new_threads(4, {.count = 2});
}

TEST_CASE("ranks on two GPUs give the CPU's bits", "[two GPUs]") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    auto const text = file(all_types[1], stage, 2, movements[2]);
    REQUIRE(bits_of(train_on_gpu(4, text, {.count = 2})) == bits_of(train_on_cpu(4, text)));
  }
}

}  // namespace zeroth::testing
