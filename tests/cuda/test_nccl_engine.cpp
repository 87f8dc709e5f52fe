// SPDX-License-Identifier: Apache-2.0
/// Engines whose ranks communicate by NCCL. The NCCL of the tests sums in rank order, so that bits can be compared.
#include <fmt/format.h>

#include <barrier>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/contribute.hpp"
#include "cuda/cuda_access.hpp"
#include "cuda/like_nccl.hpp"
#include "cuda/nccl_ranks.hpp"
#include "cuda/trained.hpp"
#include "engine/small_model.hpp"
#include "support/sanitized.hpp"
#include "zeroth/adapters/cuda.hpp"

namespace zeroth::testing {
namespace {

Types const all_types[] = {fp32_types, bf16_types, fp16_types};

std::string file(Types const& types, int stage, bool overlap, std::string const& more = "") {
  return fmt::format(R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, {} "gradient_clipping": 0.5,
    "zero_optimization": {{"stage": {}, "reduce_bucket_size": 1500, "stage3_prefetch_bucket_size": 1000,
                           "overlap_comm": {}}},
    "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
    "zeroth": {{ "poison": true, "timeout_ms": 60000 {} }} }})",
                     types.keys, stage, overlap, more);
}

Trained train_by_nccl(int world, std::string const& text, fake_cuda::Machine const& machine = {},
                      TrainOptions options = {}) {
  begin_nccl(machine);
  options.access = CudaAccess::make;
  auto result = train_by(
      [gpus = machine.gpus](int ranks, std::function<void(Job&)> const& rank_main) {
        return run_nccl_job(ranks, rank_main, gpus);
      },
      world, text, options);
  REQUIRE(left_over() == "");
  return result;
}

Trained train_on_threads(int world, std::string const& text) {
  return train_by(
      [](int ranks, std::function<void(Job&)> const& rank_main) { return run_job(ranks, rank_main, like_nccl); }, world,
      text);
}

using Counts = std::map<std::string, std::int64_t>;

/// Calls of CUDA and of NCCL, of all ranks, in steps 4 to 8 of a job of four.
Counts calls_of_steps_4_to_8(Config const& config) {
  constexpr int world = 4;
  Counts before, result;
  std::barrier<> together{world};
  auto const counts = [] {
    auto all = fake_cuda::calls();
    all.merge(fake_nccl::calls());
    return all;
  };
  auto const begin = [&] { before = counts(); };
  auto const end = [&] {
    result = counts();
    for (auto const& [function, count] : before) {
      result[function] -= count;
    }
    std::erase_if(result, [](auto const& each) { return each.second == 0; });
  };
  auto const outcome = run_nccl_job(world, [&](Job& job) {
    eight_steps_on_gpu(
        job, config, together, begin, [] {}, end);
  });
  REQUIRE(messages_of(outcome) == "");
  return result;
}

/// Functions that only enqueue, or only query.
std::set<std::string> const harmless{
    "cudaMemcpyAsync",      "cudaMemsetAsync", "cudaStreamWaitEvent",   "cudaEventRecord", "cudaEventQuery",
    "cudaEventElapsedTime", "launch",          "ncclCommGetAsyncError", "ncclGroupStart",  "ncclGroupEnd",
    "ncclAllGather",        "ncclAllReduce",   "ncclReduceScatter"};

}  // namespace

TEST_CASE("ranks over NCCL train with the bits of threads on the CPU") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool const overlap : {true, false}) {
      static Sample sample{11, 3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, stage {}, overlap {}", types.name, stage, overlap));
      auto const text = file(types, stage, overlap);
      REQUIRE(bits_of(train_by_nccl(4, text)) == bits_of(train_on_threads(4, text)));
    }
  }
}

TEST_CASE("same_bits_at_any_ranks is rejected over NCCL", "[host]") {
  begin_nccl({.gpus = 2});
  auto const config = Config::from_json(file(fp32_types, 2, true, R"(, "same_bits_at_any_ranks": true)"));
  auto const outcome = run_nccl_job(
      2, [&](Job& job) { static_cast<void>(train_synthetic(job, config, {})); }, 2);
  CHECK_THAT(messages_of(outcome),
             Catch::Contains("zeroth.same_bits_at_any_ranks is true: NCCL adds ranks up in an "
                             "order of its own; set it to false, or zeroth.reduce_codec to \"exact\", or "
                             "train over local, mpi or tcp"));
}

TEST_CASE("with a codec ranks that communicate by NCCL train as threads on the CPU do, and NCCL adds up nothing") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  for (auto const* const codec : {"exact", "int8", "int4", "sign"}) {
    for (int stage = 0; stage <= 3; ++stage) {
      static Sample sample{11, 3};
      bool const is_sign = codec == std::string{"sign"};
      if (sample.leaves_out() || (is_sign && (stage > 1 || types.name == fp16_types.name))) {
        continue;
      }
      INFO(fmt::format("{}, {}, stage {}", codec, types.name, stage));
      auto const text = file(types, stage, stage % 2 == 0, fmt::format(R"(, "reduce_codec": "{}")", codec));
      auto const trained = bits_of(train_by_nccl(3, text, {.delays = 5}));
      CHECK(fake_nccl::calls()["ncclReduceScatter"] == 0);
      REQUIRE(trained == bits_of(train_on_cpu(3, text)));
      if (codec == std::string{"exact"}) {
        REQUIRE(trained == bits_of(train_on_cpu(3, file(types, stage, true))));
      }
    }
  }
}

TEST_CASE("with the exact codec any number of ranks over NCCL trains the same bits") {
  auto const text = file(fp32_types, 2, true, R"(, "same_bits_at_any_ranks": true, "reduce_codec": "exact")");
  CHECK(bits_of(train_by_nccl(2, text)) == bits_of(train_on_cpu(2, text)));
}

TEST_CASE("backward on a new thread for each micro-step changes nothing over NCCL", "[host]") {
  TrainOptions options;
  options.backward_by = on_new_thread;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    auto const text = file(all_types[0], stage, true, R"(, "check": true)");
    REQUIRE(bits_of(train_by_nccl(4, text, {.gpus = 4, .delays = 13}, options)) == bits_of(train_on_threads(4, text)));
  }
}

TEST_CASE(
    "ranks in groups over NCCL train like threads on the CPU without groups, and send the bytes of the formulas") {
  for (bool const two_levels : {false, true}) {
    for (auto const& [stage, keys] : {std::pair{3, R"(, "zero_hpz_partition_size": 2)"},
                                      {3, R"(, "mics_shard_size": 2)"},
                                      {2, R"(, "mics_shard_size": 2)"},
                                      {1, R"(, "mics_shard_size": 2)"}}) {
      INFO(fmt::format("stage {}{}, two levels: {}", stage, keys, two_levels));
      auto const* const more = two_levels ? R"(, "two_level_sums": true, "group_size": 2)" : "";
      for (auto const* const shared : {"", R"(, "single_communicator": true)"}) {
        static Sample sample{11, 3};
        if (sample.leaves_out()) {
          continue;
        }
        auto const flat = file(all_types[1], stage, true, fmt::format("{}{}", more, shared));
        auto const grouped = train_by_nccl(4, with_zero_keys(flat, keys));
        auto const on_cpu = train_on_threads(4, with_zero_keys(flat, keys));
        REQUIRE(bits_of(grouped) == bits_of(train_on_threads(4, flat)));
        for (std::size_t step = 0; step < grouped.reports.size(); ++step) {
          CHECK(grouped.reports[step].gathered_bytes == on_cpu.reports[step].gathered_bytes);
          CHECK(grouped.reports[step].gathered_across_groups_bytes ==
                on_cpu.reports[step].gathered_across_groups_bytes);
          CHECK(grouped.reports[step].reduced_bytes == on_cpu.reports[step].reduced_bytes);
          CHECK(grouped.reports[step].reduced_across_groups_bytes == on_cpu.reports[step].reduced_across_groups_bytes);
        }
      }
    }
  }
}

TEST_CASE("ranks over NCCL with states in host memory train like stage 0 on the CPU") {
  auto const* const reduce = R"(, "reduce_gradients": "every_micro_step")";
  auto const* const offload = R"(, "sub_group_size": 1, "offload_optimizer": {"device": "cpu", "ratio": 0.7})";
  auto const base = bits_of(train_on_threads(4, file(all_types[1], 0, false, reduce)));
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool const overlap : {true, false}) {
      auto const* const update = (stage % 2 == 0) == overlap ? "" : R"(, "offload_update": "host")";
      INFO(fmt::format("stage {}, overlap {}{}", stage, overlap, update));
      auto const text = with_zero_keys(file(all_types[1], stage, overlap, std::string{reduce} + update), offload);
      REQUIRE(bits_of(train_by_nccl(4, text, {.gpus = 2})) == base);
    }
  }
}

TEST_CASE("ranks train on the default stream of their GPUs, with and without overlap", "[host]") {
  for (int const stage : {0, 3}) {
    for (bool const overlap : {true, false}) {
      INFO(fmt::format("stage {}, overlap {}", stage, overlap));
      auto const text = file(all_types[0], stage, overlap);
      begin_nccl({.gpus = 2, .default_stream = true});
      TrainOptions options;
      options.access = CudaAccess::make;
      auto const trained = train_by(
          [](int ranks, std::function<void(Job&)> const& rank_main) {
            return run_nccl_job(
                ranks,
                [&](Job& job) {
                  job.compute_on(stream_ref(nullptr));
                  rank_main(job);
                },
                2);
          },
          2, text, options);
      CHECK(bits_of(trained) == bits_of(train_on_threads(2, text)));
      CHECK(left_over() == "");
    }
  }
}

TEST_CASE("late work on some streams changes nothing over NCCL") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    auto const text = file(all_types[0], stage, true);
    REQUIRE(bits_of(train_by_nccl(3, text, {.gpus = 3, .delays = 7})) == bits_of(train_on_threads(3, text)));
  }
}

TEST_CASE("settings determine how communicators are created, and which memory they register", "[host]") {
  struct Row {
    char const* keys;
    std::multimap<std::string, int> policies;  // of one rank
    int windows;
  };
  Row const rows[] = {
      {"", {{"gather", NCCL_CTA_POLICY_DEFAULT}, {"reduce", NCCL_CTA_POLICY_DEFAULT}, {"world", 0}}, 4},
      {R"(, "copy_engine_gather": true)",
       {{"gather", NCCL_CTA_POLICY_ZERO}, {"reduce", NCCL_CTA_POLICY_DEFAULT}, {"world", 0}},
       4},
      {R"(, "register_memory": false)",
       {{"gather", NCCL_CTA_POLICY_DEFAULT}, {"reduce", NCCL_CTA_POLICY_DEFAULT}, {"world", 0}},
       0},
      {R"(, "single_communicator": true)", {{"all", NCCL_CTA_POLICY_DEFAULT}, {"world", 0}}, 3},
  };
  for (auto const& row : rows) {
    INFO(row.keys);
    auto const text = file(all_types[0], 3, true, row.keys);
    CHECK(bits_of(train_by_nccl(1, text)) == bits_of(train_on_threads(1, text)));
    CHECK(fake_nccl::policies() == row.policies);
    CHECK(fake_nccl::calls("ncclCommWindowRegister") == row.windows);
    CHECK(fake_nccl::calls("ncclCommWindowDeregister") == row.windows);
    CHECK(fake_nccl::calls("ncclMemAlloc") == fake_nccl::calls("ncclMemFree"));
    CHECK(bits_of(train_by_nccl(4, text)) == bits_of(train_on_threads(4, text)));
  }
}

TEST_CASE("an NCCL that gains nothing from windows is used without them", "[host]") {
  auto const text = file(all_types[0], 3, true);
  begin_nccl({});
  fake_nccl::give_no_windows();
  TrainOptions options;
  options.access = CudaAccess::make;
  auto const trained =
      train_by([](int ranks, std::function<void(Job&)> const& rank_main) { return run_nccl_job(ranks, rank_main); }, 2,
               text, options);
  CHECK(left_over() == "");
  CHECK(fake_nccl::calls("ncclCommWindowRegister") == 2 * 4);
  CHECK(fake_nccl::calls("ncclCommWindowDeregister") == 0);
  CHECK(bits_of(trained) == bits_of(train_on_threads(2, text)));
}

TEST_CASE("exactly the memory that collectives send comes from NCCL's allocator", "[host]") {
  using device::Category;
  begin_nccl({});
  {
    auto const device = device::make_cuda_device(0, device::CudaBuffers::registrable);
    for (auto const category :
         {Category::parameters, Category::gradients, Category::optimizer, Category::slots, Category::scratch}) {
      INFO(device::name_of(category));
      auto const by_nccl = fake_nccl::calls("ncclMemAlloc");
      auto const in_all = fake_cuda::calls("cudaMalloc");  // the tests' NCCL allocator calls it
      auto const memory = device->allocate(category, 100);
      CHECK(fake_nccl::calls("ncclMemAlloc") - by_nccl ==
            (category == Category::optimizer || category == Category::scratch ? 0 : 1));
      CHECK(fake_cuda::calls("cudaMalloc") - in_all == 1);
    }
    CHECK(fake_nccl::calls("ncclMemFree") == 3);
  }
  CHECK(left_over() == "");
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 3}) {
      INFO(fmt::format("stage {}, {} ranks", stage, world));
      begin_nccl({});
      std::vector<MemoryBytes> planned(static_cast<std::size_t>(world));
      auto const outcome = run_nccl_job(world, [&](Job& job) {
        SmallModel const small;
        auto const config = small_config(stage);
        Engine<float> const engine{job, small.model, config};
        planned[static_cast<std::size_t>(job.rank())] = engine.planned();
      });
      REQUIRE(messages_of(outcome) == "");
      std::int64_t sent = 0, kept = 0;  // arenas, of which empty ones need no memory
      for (auto const& bytes : planned) {
        sent += (bytes.parameters > 0 ? 1 : 0) + (bytes.gradients > 0 ? 1 : 0) + (bytes.slots > 0 ? 1 : 0);
        kept += (bytes.optimizer > 0 ? 1 : 0) + (bytes.scratch > 0 ? 1 : 0);
      }
      CHECK(sent >= world);
      CHECK(fake_nccl::calls("ncclMemAlloc") == sent);
      CHECK(fake_cuda::calls("cudaMalloc") == sent + kept + world);  // and each rank's word for barriers
      CHECK(left_over() == "");
    }
  }
}

TEST_CASE("an allocation that NCCL refuses is an error that names the category", "[host]") {
  begin_nccl({});
  fake_nccl::refuse("ncclMemAlloc", ncclSystemError);
  auto const outcome = run_nccl_job(1, [](Job& job) {
    SmallModel const small;
    auto const config = small_config(3);
    Engine<float> const engine{job, small.model, config};
  });
  CHECK_THAT(message_of(outcome[0]), Catch::Contains("ncclMemAlloc on cuda:0 refused") &&
                                         Catch::Contains("bytes for parameters: unhandled system error"));
  CHECK(left_over() == "");
}

TEST_CASE("steps 4 to 8 with NCCL allocate nothing and wait for nothing", "[host]") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    begin_nccl({});
    auto const calls = calls_of_steps_4_to_8(small_config(stage, {.zero = R"(, "overlap_comm": true)"}));
    for (auto const& [function, count] : calls) {
      INFO(fmt::format("{} calls of {}", count, function));
      CHECK(harmless.contains(function));
    }
    CHECK(calls.at("ncclGroupEnd") > 0);
    CHECK(calls.at("ncclAllReduce") >= 4 * 5);  // for every rank and step, at least the one of the step's sums
    CHECK(calls.contains("ncclReduceScatter") == (stage > 0));
    CHECK(calls.contains("ncclAllGather") == (stage > 0));
  }
}

}  // namespace zeroth::testing
