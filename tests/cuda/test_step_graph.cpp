// SPDX-License-Identifier: Apache-2.0
/// Steps recorded as graphs, over the tests' own NCCL: they give the bits of steps that are not recorded, and replace
/// their calls.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/expected_graphs.hpp"
#include "support/catch.hpp"
#include "support/log.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

struct Set {
  char const* name;
  char const* more;
};
Set const sets[] = {{"fp32", ""},
                    {"bf16", R"(, "bf16": {"enabled": true})"},
                    {"fp16", R"(, "fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 3})"},
                    {"fp16, constant scale", R"(, "fp16": {"enabled": true, "loss_scale": 64})"},
                    {"bf16 reduced in fp32", R"(, "bf16": {"enabled": true}, "communication_data_type": "fp32")"}};

constexpr int world = 3, accumulation = 2, micro_batch = 2;
constexpr std::int64_t batch = std::int64_t{world} * accumulation * micro_batch;

/// Settings that every step of these tests has: with poison, memory that is read too early or too late is NaN.
Config config_of(int stage, SmallFile file, int timeout_ms = 120'000) {
  file.timeout_ms = timeout_ms;
  file.accumulation = accumulation;
  file.micro_batch = micro_batch;
  file.zeroth += R"(, "poison": true)";
  return small_config(stage, file);
}

GraphRun run_anew(Config const& config, GraphPlan const& plan, unsigned delays = 0) {
  return run_anew({.gpus = world, .delays = delays}, config, batch, plan);
}

/// The messages of two ranks that call `body`. Call begin_nccl() first.
std::string message_of(Config const& config, std::function<void(Engine<float>&, SmallModel const&)> const& body) {
  auto const outcome = run_nccl_job(
      2,
      [&](Job& job) {
        SmallModel const small;
        Engine<float> engine{job, small.model, config};
        body(engine, small);
      },
      2);
  return messages_of(outcome);
}

}  // namespace

TEST_CASE("three steps and nine that are launched as graphs have the bits of twelve steps") {
  for (auto const& set : sets) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (auto const* const rule : {"every_micro_step", "last_micro_step"}) {
        for (bool const overlap : {true, false}) {
          static Sample sample{7, 3};
          if (sample.leaves_out()) {
            continue;
          }
          INFO(fmt::format("{}, stage {}, {}, overlap {}", set.name, stage, rule, overlap));
          auto const config =
              config_of(stage, {.zero = fmt::format(R"(, "overlap_comm": {}, "reduce_bucket_size": 400)", overlap),
                                .zeroth = fmt::format(R"(, "reduce_gradients": "{}")", rule),
                                .more = std::string{set.more} + R"(, "gradient_clipping": 0.5)"});
          GraphPlan const plan;
          expect_same(run_anew(config, plan, 3), run_anew(config, eager(plan)));
        }
      }
    }
  }
}

TEST_CASE("launched steps with an overflow skip the update, as others do") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const set : {2, 3}) {
      INFO(fmt::format("stage {}, {}", stage, sets[set].name));
      auto const config = config_of(stage, {.more = sets[set].more});
      GraphPlan const plan{.overflow = {6 * batch + 1, 6 * batch + 3}};
      auto const expected = run_anew(config, eager(plan));
      REQUIRE(expected.errors == "");
      CHECK(std::ranges::count_if(expected.reports[0], &StepReport::skipped) == 1);
      bool const is_dynamic = expected.reports[0][11].loss_scale != expected.reports[0][0].loss_scale;
      CHECK(is_dynamic == (set == 2));
      expect_same(run_anew(config, plan, 7), expected);
    }
  }
}

TEST_CASE("evaluations and other steps may come between launched steps") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    auto const config = config_of(stage, {.zero = R"(, "stage3_prefetch_bucket_size": 300)", .more = sets[1].more});
    GraphPlan const plan{.disturbs = true};
    expect_same(run_anew(config, plan, 11), run_anew(config, eager(plan)));
  }
}

TEST_CASE("launched steps save, and go on from a checkpoint that is restored between them") {
  constexpr int saved = 6, steps = 10;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    auto const config = config_of(stage, {.more = sets[2].more});
    auto const expected = run_anew(config, eager({.steps = steps}));
    begin_nccl({.gpus = world, .delays = 17});
    Folder const folder;
    std::vector<float> losses;
    auto const outcome = run_nccl_job(
        world,
        [&](Job& job) {
          with_precision(config, [&]<class T, class G>(Precision<T, G>) {
            SmallModel const small;
            Engine<T, G> engine{job, small.model, config};
            StepInputs inputs{cuda_stream(engine)};
            std::optional<StepGraph> graph;
            std::optional<StepReport> last;
            auto const train_to = [&](int first, int end) {
              for (int step = first; step < end; ++step) {
                inputs.copy(step * batch);
                auto const eager_step = [&] { static_cast<void>(enqueue_step(engine, small, inputs, {})); };
                if (step < 3) {
                  eager_step();
                } else if (!graph) {
                  graph.emplace(engine.step_graph());
                  static_cast<void>(graph->record(eager_step));
                } else {
                  static_cast<void>(graph->replay());
                }
                if (step + 1 == saved && first == 0) {
                  static_cast<void>(engine.save(folder.path()));
                }
              }
              last = engine.finish();
            };
            train_to(0, saved + 2);
            expect(engine.restore_latest(folder.path()).has_value(), "there is a checkpoint");
            train_to(saved, steps);
            if (job.rank() == 0) {
              losses.push_back(last->loss);
            }
            engine.save_weights(folder / "weights");
          });
        },
        world);
    REQUIRE(messages_of(outcome) == "");
    CHECK(losses.at(0) == expected.reports[0].back().loss);
    CHECK(contents_of(folder / "weights") == expected.weights);
  }
}

TEST_CASE("what goes with the stage files of graphs trains the same bits") {
  SmallFile const files[] = {
      {.zero = R"(, "zero_hpz_partition_size": 2)", .more = sets[1].more},
      {.zero = R"(, "mics_shard_size": 2)"},
      {.zero = R"(, "mics_shard_size": 2)", .zeroth = R"(, "reduce_codec": "exact")"},
      {.zeroth = R"(, "reduce_codec": "int8", "gather_codec": "int8")", .more = sets[1].more},
      {.zeroth = R"(, "ema": {"decay": 0.9})", .more = R"(, "gradient_clipping": 0.1)"},
      {.zero = R"(, "stage3_param_persistence_threshold": 320, "stage3_max_live_parameters": 700)"},
      {.more = R"(, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 4, "total_num_steps": 10}})"},
  };
  for (auto const& file : files) {
    INFO(file.zero << file.zeroth << file.more);
    auto const config = config_of(3, file);
    auto const run = [&config](GraphPlan const& plan) {
      return run_anew({.gpus = 4, .delays = 13}, config, 4 * accumulation * micro_batch, plan);
    };
    GraphPlan const plan;
    expect_same(run(plan), run(eager(plan)));
  }
}

TEST_CASE("a launched step makes a few calls of CUDA and none of NCCL") {
  static std::set<std::string> const harmless{"cudaGraphLaunch", "cudaEventRecord", "cudaStreamWaitEvent",
                                              "cudaEventQuery", "ncclCommGetAsyncError"};
  constexpr int first = 5, last = 9;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    begin_nccl({.gpus = world});
    using Counts = std::map<std::string, std::int64_t>;
    std::vector<Counts> counts;
    auto const note = [&counts]() noexcept {
      auto all = fake_cuda::calls();
      all.merge(fake_nccl::calls());
      counts.push_back(std::move(all));
    };
    std::barrier together{world, note};  // all ranks stand still
    auto const run = run_graphs(world, config_of(stage, {}), batch, {.before_replay = [&](int step) {
                                  if (step == first || step == last) {
                                    together.arrive_and_wait();
                                  }
                                }});
    REQUIRE(run.errors == "");
    REQUIRE(counts.size() == 2);
    constexpr std::int64_t steps = world * (last - first);
    for (auto const& [function, count] : counts[1]) {
      auto const made = count - counts[0][function];
      INFO(fmt::format("{} calls of {}", made, function));
      bool const copies_inputs = (function == "cudaMemcpyAsync" || function == "launch") && made == steps;
      CHECK((made == 0 || harmless.contains(function) || copies_inputs));
    }
    CHECK(counts[1]["cudaGraphLaunch"] - counts[0]["cudaGraphLaunch"] == 2 * steps);
  }
}

TEST_CASE("an edge that a graph lacks changes bits") {
  if (sanitized) {
    return;  // it is a race
  }
  // A collective without its edge may start in another order than on other ranks, which then wait for the timeout.
  auto const config =
      config_of(3, {.zero = R"(, "reduce_bucket_size": 400, "stage3_prefetch_bucket_size": 300)"}, 1500);
  GraphPlan const plan{.steps = 6};
  auto const expected = run_anew(config, eager(plan));
  REQUIRE(expected.errors == "");
  Log const log;  // captures many warnings about NaN
  int tried = 0, seen = 0;
  for (std::size_t edge = 0;; edge += 2) {
    begin_nccl({.gpus = world});
    fake_cuda::drop_edge(edge);
    auto const run = run_graphs(world, config, batch, plan);
    auto const made = fake_cuda::graphs_made();
    auto const dropped = std::ranges::find_if(made, &fake_cuda::GraphMade::dropped);
    if (dropped == made.end()) {
      break;
    }
    if (dropped->redundant) {
      continue;
    }
    ++tried;
    bool const differs =
        !run.errors.empty() || run.weights != expected.weights || bits(run.reports[0]) != bits(expected.reports[0]);
    seen += differs ? 1 : 0;
    UNSCOPED_INFO(fmt::format("edge {}: {}", edge, differs ? "seen" : "not seen"));
  }
  INFO(fmt::format("{} of {} seen", seen, tried));
  CHECK(tried > 20);
  // Edges between kernels of one stream that do not depend on each other change nothing.
  CHECK(4 * seen >= 3 * tried);
}

TEST_CASE("what cannot be recorded is refused by name") {
  auto const graph_of = [](char const* zeroth, char const* more = "") {
    begin_nccl({.gpus = world});
    return message_of(small_config(2, {.zeroth = zeroth, .more = more}),
                      [](auto& engine, SmallModel const&) { static_cast<void>(engine.step_graph()); });
  };
  CHECK_THAT(graph_of(R"(, "check": true)"), Catch::Contains("step_graph(): zeroth.check is true"));
  CHECK_THAT(graph_of(R"(, "delayed_update": true)"), Catch::Contains("zeroth.delayed_update is true"));
  CHECK_THAT(graph_of(R"(, "replay_every": 5)"), Catch::Contains("zeroth.replay_every is 5"));
  CHECK_THAT(graph_of("", R"(, "wall_clock_breakdown": true)"), Catch::Contains("wall_clock_breakdown"));
  CHECK_THAT(graph_of("", R"(, "comms_logger": {"enabled": true})"), Catch::Contains("comms_logger.enabled"));
}

TEST_CASE("a rank that does not launch its graphs is named") {
  auto const config = config_of(2, {}, 1500);
  begin_nccl({.gpus = world});
  auto const thrown = run_graphs(world, config, batch, {.before_replay = [](int step) {
                                   if (step == 7 && this_rank().rank == 1) {
                                     throw std::runtime_error{"thrown by the test"};
                                   }
                                 }});
  CHECK_THAT(thrown.errors, Catch::Contains("thrown by the test"));
  CHECK_THAT(thrown.errors, Catch::Contains("[rank 0/3") && Catch::Contains("[rank 2/3"));
  begin_nccl({.gpus = world});
  auto const late = run_graphs(world, config, batch, {.before_replay = [](int step) {
                                 if (step == 7 && this_rank().rank == 1) {
                                   std::this_thread::sleep_for(std::chrono::seconds{6});
                                 }
                               }});
  CHECK_THAT(late.errors, Catch::Contains("passes of unit 'recorded step'") && Catch::Contains("rank 1"));
}

TEST_CASE("steps are recorded over NCCL on GPUs alone") {
  auto const refusal = [](MakeDevice const& make_device) {
    return messages_of(run_job(
        2,
        [](Job& job) {
          SmallModel const small;
          Engine<float> engine{job, small.model, small_config(2)};
          static_cast<void>(engine.step_graph());
        },
        {}, make_device));
  };
  begin_nccl({.gpus = world});
  CHECK_THAT(refusal({}), Catch::Contains("step_graph(): the device cpu has no graphs"));
  CHECK_THAT(
      refusal([](int) { return device::make_cuda_device(0); }),
      Catch::Contains("is of the transport local, whose ranks meet on the host; only those of nccl can be recorded"));
}

TEST_CASE("misuse of a StepGraph is refused") {
  auto const train_three = [](auto& engine, SmallModel const& small, StepInputs const& inputs) {
    for (int step = 0; step < 3; ++step) {
      static_cast<void>(enqueue_step(engine, small, inputs, {}));
    }
  };
  auto const after_three = [&](auto const& body) {
    begin_nccl({.gpus = world});
    return message_of(small_config(2), [&](auto& engine, SmallModel const& small) {
      StepInputs inputs{cuda_stream(engine)};
      inputs.copy(0);
      train_three(engine, small, inputs);
      auto graph = engine.step_graph();
      body(engine, small, inputs, graph);
    });
  };
  CHECK_THAT(message_of(small_config(2), [](auto& engine, SmallModel const&) { engine.step_graph().record([] {}); }),
             Catch::Contains("record() after 0 steps of this engine; allowed: 2 or more"));
  CHECK_THAT(after_three([](auto&, auto&, auto&, auto& graph) { static_cast<void>(graph.replay()); }),
             Catch::Contains("replay() of a StepGraph that has recorded nothing"));
  CHECK_THAT(after_three([](auto&, auto&, auto&, auto& graph) { graph.record([] {}); }),
             Catch::Contains("record(): its function made 0 steps; allowed: 1"));
  CHECK_THAT(after_three([](auto& engine, auto& small, auto&, auto& graph) {
               graph.record([&] {
                 for (auto micro : engine.micro_steps()) {
                   forward(micro, small);
                   static_cast<void>(micro.report_loss(1.5F));
                 }
               });
             }),
             Catch::Contains("report_loss() of a number while a StepGraph records"));
  CHECK_THAT(after_three([](auto& engine, auto&, auto&, auto& graph) {
               graph.record([&] {
                 for (auto micro : engine.micro_steps()) {
                   static_cast<void>(micro.random(0, 1));
                 }
               });
             }),
             Catch::Contains("random() while a StepGraph records: every replay would have the same numbers"));
  CHECK_THAT(after_three([](auto& engine, auto&, auto&, auto& graph) {
               graph.record([&] { static_cast<void>(engine.finish()); });
             }),
             Catch::Contains("finish() while a StepGraph records"));
  CHECK_THAT(after_three([](auto& engine, auto& small, auto& inputs, auto& graph) {
               graph.record([&] { static_cast<void>(enqueue_step(engine, small, inputs, {})); });
               static_cast<void>(engine.add_metric("accuracy"));
               static_cast<void>(graph.replay());
             }),
             Catch::Contains("replay() of a step that was recorded with 0 metrics, and the engine has 1 now"));
}

}  // namespace zeroth::testing
