// SPDX-License-Identifier: Apache-2.0
/// A simulated step against arithmetic, and against the same step on the CPU.
#include "zeroth/simulate/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/small_model.hpp"
#include "simulate/simple_machine.hpp"
#include "simulate/virtual_communicator.hpp"
#include "simulate/virtual_device.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::simulate {
namespace {

using testing::small_config;
using testing::SmallModel;

Machine machine(double link_bytes_per_s) { return simple_machine(1024, link_bytes_per_s); }

constexpr double fast = 1e18, slow = 1e6;

std::vector<UnitWork> const& work() {
  static std::vector<UnitWork> const work{{1e6, 2e6}, {3e6, 6e6}, {2e6, 4e6, 1e6}};  // milliseconds, in all 18 and 1
  return work;
}

struct Real {
  std::vector<StepReport> reports;
  MemoryBytes peak;
};

Real train(int stage, int world, testing::SmallFile const& file) {
  Real real;
  auto const outcome = testing::run_job(world, [&](Job& job) {
    SmallModel small;
    auto const config = small_config(stage, file);
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      Engine<T, G> engine{job, small.model, config};
      auto reports = testing::train(engine, small, 3);
      if (job.rank() == 0) {
        real = {reports, engine.peak()};
      }
    });
  });
  REQUIRE(testing::messages_of(outcome).empty());
  return real;
}

}  // namespace

TEST_CASE("A simulated step sends the bytes of a real one, and holds its memory") {
  for (int const stage : {0, 1, 2, 3}) {
    for (int const world : {1, 2, 3}) {
      for (auto const* const zero : {R"(, "stage3_prefetch_bucket_size": 0)", R"(, "stage3_prefetch_bucket_size": 400)",
                                     R"(, "reduce_bucket_size": 700, "overlap_comm": true)"}) {
        auto const* const more =
            world == 2 ? R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true})" : "";
        INFO("stage " << stage << ", world " << world << zero << more);
        testing::SmallFile const file{.accumulation = 2, .zero = zero, .more = more};
        auto const real = train(stage, world, file);
        SmallModel const small;
        auto const simulated = run(small.model, small_config(stage, file), world, work(), machine(fast));
        auto const& expected = real.reports.back();
        CHECK(simulated.report.gathered_bytes == expected.gathered_bytes);
        CHECK(simulated.report.reduced_bytes == expected.reduced_bytes);
        CHECK(simulated.report.prefetch_misses == expected.prefetch_misses);
        CHECK(simulated.report.parameter_slots_used == expected.parameter_slots_used);
        CHECK(simulated.report.gradient_slots_used == expected.gradient_slots_used);
        CHECK(simulated.memory == real.peak);
        CHECK(simulated.memory == plan(small.model, small_config(stage, file), world).bytes);
        CHECK_FALSE(simulated.report.skipped);
      }
    }
  }
}

TEST_CASE("A simulated step in groups sends the bytes of a real one, and holds its memory") {
  struct Case {
    int stage;
    char const* zero;
    char const* zeroth;
  };
  for (auto const& [stage, zero, zeroth] :
       {Case{3, R"(, "zero_hpz_partition_size": 2)", ""}, Case{3, R"(, "mics_shard_size": 3)", ""},
        Case{2, R"(, "mics_shard_size": 2)", R"(, "two_level_sums": true)"}, Case{1, R"(, "mics_shard_size": 6)", ""},
        Case{3, R"(, "zero_hpz_partition_size": 3)", R"(, "two_level_sums": true, "single_communicator": true)"},
        Case{0, "", R"(, "two_level_sums": true, "group_size": 3)"}}) {
    INFO("stage " << stage << zero << zeroth);
    testing::SmallFile const file{.accumulation = 2, .zero = zero, .zeroth = zeroth};
    auto const real = train(stage, 6, file);
    SmallModel const small;
    Options every_rank;
    every_rank.all_ranks = true;
    for (auto const& options : {Options{}, every_rank}) {
      auto const simulated = run(small.model, small_config(stage, file), 6, work(), machine(fast), options);
      auto const& expected = real.reports.back();
      CHECK(simulated.report.gathered_bytes == expected.gathered_bytes);
      CHECK(simulated.report.gathered_across_groups_bytes == expected.gathered_across_groups_bytes);
      CHECK(simulated.report.reduced_bytes == expected.reduced_bytes);
      CHECK(simulated.report.reduced_across_groups_bytes == expected.reduced_across_groups_bytes);
      CHECK(simulated.memory == real.peak);
      CHECK(simulated.memory == plan(small.model, small_config(stage, file), 6).bytes);
    }
  }
}

TEST_CASE("With free collectives a step takes the time of its math") {
  for (int const stage : {0, 1, 2, 3}) {
    SmallModel const small;
    auto const simulated = run(small.model, small_config(stage), 64, work(), machine(fast));
    CHECK(simulated.step_ms == Approx(2 * 19));  // two micro-steps
    CHECK(simulated.exposed_comm_ms == Approx(0).margin(1e-3));
    CHECK(simulated.mfu == Approx(18.0 / 19));
  }
}

TEST_CASE("A disk takes the time of its rate, inline or during math") {
  SmallModel const small;
  auto node = machine(fast);
  node.disk_bytes_per_s = 1e6 * node.ranks_per_node;  // a byte a microsecond
  auto const file = [](bool pipeline) {
    return small_config(3, {.zero = fmt::format(R"(, "offload_optimizer": {{"device": "nvme", "nvme_path": "x",
        "pipeline_read": {0}, "pipeline_write": {0}}})",
                                                pipeline)});
  };
  auto const disk = plan(small.model, file(false), 4).disk;
  auto const in_line = run(small.model, file(false), 4, work(), node);
  double const disk_ms = 2e-3 * static_cast<double>(disk.read_bytes);
  CHECK(in_line.exposed_io_ms == Approx(disk_ms).epsilon(1e-3));
  CHECK(in_line.step_ms == Approx(2 * 19 + disk_ms).epsilon(0.01));
  CHECK(in_line.exposed_comm_ms == Approx(0).margin(1e-2));
  CHECK(in_line.memory == plan(small.model, file(false), 4).bytes);
  auto const beside = run(small.model, file(true), 4, work(), node);
  CHECK(beside.memory == plan(small.model, file(true), 4).bytes);
  CHECK(beside.exposed_io_ms < in_line.exposed_io_ms);
  // A disk moves a step's bytes within a step, whatever overlaps.
  CHECK(beside.step_ms >= Approx(std::max(disk_ms, 38.0)).epsilon(0.01));
  CHECK(beside.step_ms == Approx(2 * 19 + beside.exposed_io_ms).epsilon(0.01));
  node.disk_bytes_per_s = 0;
  CHECK_THAT(testing::thrown<ConfigError>([&] { return run(small.model, file(true), 4, work(), node); }),
             Catch::Contains("has no disk_bytes_per_s"));
}

TEST_CASE("Copies to and from host memory take the time of the link's rate, each direction separately") {
  SmallModel const small;
  auto node = machine(fast);
  node.host_bytes_per_s = 1e6;  // a byte a microsecond
  auto const file = [](bool pipeline) {
    return small_config(3, {.zero = fmt::format(R"(, "offload_optimizer": {{"device": "cpu",
        "pipeline_read": {0}, "pipeline_write": {0}}})",
                                                pipeline)});
  };
  auto const planned = [&](bool pipeline) {
    return plan(small.model, file(pipeline), 4, {.device = DeviceKind::cuda});
  };
  auto const in_line = run(small.model, file(false), 4, work(), node);
  double const one_way_ms = 1e-3 * static_cast<double>(planned(false).host.read_bytes);
  REQUIRE(one_way_ms > 0);
  CHECK(in_line.exposed_io_ms == Approx(2 * one_way_ms).epsilon(1e-3));
  CHECK(in_line.step_ms == Approx(2 * 19 + 2 * one_way_ms).epsilon(0.01));
  CHECK(in_line.memory == planned(false).bytes);
  auto const beside = run(small.model, file(true), 4, work(), node);
  CHECK(beside.memory == planned(true).bytes);
  CHECK(beside.exposed_io_ms < in_line.exposed_io_ms);
  CHECK(beside.step_ms >= Approx(std::max(one_way_ms, 38.0)).epsilon(0.01));
  CHECK(beside.step_ms == Approx(2 * 19 + beside.exposed_io_ms).epsilon(0.01));
  // Without such a link device memory is host memory, so states are there already.
  node.host_bytes_per_s = 0;
  auto const there = run(small.model, file(true), 4, work(), node);
  CHECK(there.exposed_io_ms == 0);
  CHECK(there.memory == plan(small.model, small_config(3), 4).bytes);
}

TEST_CASE("An update by the host takes the time of the host's rate, and its copies that of the link's") {
  SmallModel const small;
  auto node = machine(fast);
  node.host_bytes_per_s = 1e6;  // a byte a microsecond
  node.host_thread_bytes_per_s = 4e6;
  node.host_memory_bytes_per_s = 1e9;
  for (auto const* const more : {"", R"(, "bf16": {"enabled": true})"}) {
    INFO(more);
    auto const file = [&](bool pipeline) {
      return small_config(3, {.zero = fmt::format(R"(, "sub_group_size": 1, "offload_optimizer": {{"device": "cpu",
                                                         "pipeline_read": {0}, "pipeline_write": {0}}})",
                                                  pipeline),
                              .zeroth = R"(, "offload_update": "host")",
                              .more = more});
    };
    auto const planned = [&](bool pipeline) {
      return plan(small.model, file(pipeline), 4, {.device = DeviceKind::cuda});
    };
    auto const host = planned(false).host;
    bool const has_master = *more != '\0';
    // For each element an fp32 gradient moves to the host, and the parameter if it is the master; a parameter returns.
    auto const elements = host.read_bytes / (has_master ? 2 : 4);
    CHECK(host.written_bytes == elements * (has_master ? 4 : 8));
    double const links_ms = 1e-3 * static_cast<double>(host.read_bytes + host.written_bytes);
    // Master and two states are read and written, the gradient is read, and a parameter is written if it is not the
    // master.
    double const update_ms = 1e-3 * static_cast<double>(elements * (has_master ? 30 : 28)) / 4;
    auto const in_line = run(small.model, file(false), 4, work(), node);
    CHECK(in_line.exposed_io_ms == Approx(links_ms + update_ms).epsilon(1e-2));
    CHECK(in_line.step_ms == Approx(2 * 19 + links_ms + update_ms).epsilon(0.01));
    CHECK(in_line.memory == planned(false).bytes);
    CHECK(in_line.report.disk_read_bytes == host.read_bytes);
    CHECK(in_line.report.disk_written_bytes == host.written_bytes);
    auto const beside = run(small.model, file(true), 4, work(), node);
    CHECK(beside.memory == planned(true).bytes);
    CHECK(beside.exposed_io_ms < in_line.exposed_io_ms);
    CHECK(beside.step_ms >= Approx(38 + update_ms).epsilon(0.01));
    CHECK(beside.step_ms == Approx(2 * 19 + beside.exposed_io_ms).epsilon(0.01));
    std::swap(node.host_thread_bytes_per_s, node.host_memory_bytes_per_s);  // enough threads; more of them gain nothing
    CHECK(run(small.model, file(false), 4, work(), node).step_ms == Approx(in_line.step_ms));
    std::swap(node.host_thread_bytes_per_s, node.host_memory_bytes_per_s);
    auto without = node;
    without.host_thread_bytes_per_s = 0;
    CHECK_THAT(testing::thrown<ConfigError>([&] { return run(small.model, file(true), 4, work(), without); }),
               Catch::Contains("has no host_thread_bytes_per_s"));
  }
}

TEST_CASE("Parameters on a disk are simulated as they are planned") {
  SmallModel const small;
  auto node = machine(fast);
  node.disk_bytes_per_s = 1e6 * node.ranks_per_node;  // a byte a microsecond
  auto const file = [](bool overlap) {
    return small_config(3, {.zero = fmt::format(R"(, "overlap_comm": {}, "offload_param": {{"device": "nvme",
        "nvme_path": "x", "max_in_cpu": 0}})",
                                                overlap)});
  };
  auto const disk = plan(small.model, file(false), 4).parameters_disk;
  REQUIRE(disk.bytes > 0);
  auto const in_line = run(small.model, file(false), 4, work(), node);
  double const disk_ms = 1e-3 * static_cast<double>(disk.read_bytes + disk.written_bytes);
  CHECK(in_line.exposed_io_ms == Approx(disk_ms).epsilon(1e-3));
  CHECK(in_line.memory == plan(small.model, file(false), 4).bytes);
  CHECK(in_line.report.disk_read_bytes == disk.read_bytes);
  CHECK(in_line.report.disk_written_bytes == disk.written_bytes);
  auto const beside = run(small.model, file(true), 4, work(), node);
  CHECK(beside.memory == plan(small.model, file(true), 4).bytes);
  CHECK(beside.exposed_io_ms < in_line.exposed_io_ms);
  auto const in_groups = file(true).with(R"({"zero_optimization": {"zero_hpz_partition_size": 2}})");
  auto const of_group = run(small.model, in_groups, 4, work(), node);
  auto const planned = plan(small.model, in_groups, 4);
  CHECK(of_group.memory == planned.bytes);
  CHECK(of_group.report.disk_read_bytes == planned.parameters_disk.read_bytes);
  CHECK(of_group.report.disk_written_bytes == planned.parameters_disk.written_bytes);
  CHECK(of_group.report.gathered_across_groups_bytes == planned.parameters_disk.written_bytes);
}

TEST_CASE("Bytes sent are those of ZeRO's section 7, with padding") {
  int const world = 4;
  // Three units of 300 fp32 elements, of which nothing is padded, and 50 frozen ones.
  std::int64_t const trainable = 900 * 4;
  std::int64_t const scalars = 2 * optim::numbers_in_sums(0) * std::int64_t{sizeof(double)} * (world - 1) / world;
  auto const sent = [&](int stage) {
    SmallModel const small;
    testing::SmallFile const file{.accumulation = 1};
    auto const simulated = run(small.model, small_config(stage, file), world, work(), machine(fast));
    return (simulated.bytes_sent - scalars) * world / (world - 1);
  };
  auto const layout_of = [&](int stage) {
    SmallModel const small;
    testing::SmallFile const file{.accumulation = 1};
    return run(small.model, small_config(stage, file), world, work(), machine(fast)).report;
  };
  CHECK(layout_of(0).reduced_bytes >= trainable);
  CHECK(sent(0) == 2 * layout_of(0).reduced_bytes);
  for (int const stage : {1, 2, 3}) {
    CHECK(sent(stage) == layout_of(stage).reduced_bytes + layout_of(stage).gathered_bytes);
  }
  CHECK(layout_of(1).gathered_bytes == layout_of(1).reduced_bytes);
  CHECK(layout_of(3).gathered_bytes > layout_of(2).gathered_bytes);
}

TEST_CASE("Math waits for slow links, but never longer than they take") {
  for (int const stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    SmallModel const small;
    testing::SmallFile const file{.zero = R"(, "overlap_comm": true)"};
    auto const simulated = run(small.model, small_config(stage, file), 4, work(), machine(slow));
    double const communication_ms = 1e3 * static_cast<double>(simulated.bytes_sent) / slow;
    CHECK(simulated.exposed_comm_ms > 0);
    CHECK(simulated.exposed_comm_ms <= Approx(communication_ms).margin(0.5));
    CHECK(simulated.step_ms == Approx(2 * 19 + simulated.exposed_comm_ms).epsilon(0.01));

    testing::SmallFile const in_line{.zero = R"(, "overlap_comm": false)"};
    auto const without = run(small.model, small_config(stage, in_line), 4, work(), machine(slow));
    CHECK(without.step_ms == Approx(2 * 19 + communication_ms).epsilon(0.01));
    CHECK(without.step_ms >= simulated.step_ms);
  }
}

TEST_CASE("Collectives that use the GPU's compute lengthen math by their share") {
  SmallModel const small;
  constexpr double share = 0.5, link_bytes_per_s = 2e6;
  auto taking = machine(link_bytes_per_s);
  for (auto const* const bucket : {"1", "700"}) {
    testing::SmallFile const file{.zero = fmt::format(R"(, "overlap_comm": true, "reduce_bucket_size": {})", bucket)};
    for (int const stage : {0, 1, 2, 3}) {
      INFO("stage " << stage << ", buckets of " << bucket);
      taking.communication_share = share;
      auto const shared = run(small.model, small_config(stage, file), 4, work(), taking);
      double const communication_ms = 1e3 * static_cast<double>(shared.bytes_sent) / link_bytes_per_s;
      REQUIRE(communication_ms > 1);
      double const math_ms = shared.step_ms - shared.exposed_comm_ms;
      double const hidden_ms = communication_ms - shared.exposed_comm_ms;
      CHECK(math_ms >= 2 * 19 + share * hidden_ms - 0.01);
      // A collective that waits for the links after another one takes compute, too.
      CHECK(math_ms <= 2 * 19 + 2 * share * communication_ms + 0.01);
    }
  }
}

TEST_CASE("Gathers and reductions share the links, so no step is shorter than its communication") {
  SmallModel const small;
  for (double const link_bytes_per_s : {1e5, 3e5, 1e6, 3e6}) {
    for (int const stage : {0, 1, 2, 3}) {
      INFO("stage " << stage << ", " << link_bytes_per_s << " bytes per second");
      testing::SmallFile const file{.zero = R"(, "overlap_comm": true, "reduce_bucket_size": 1)"};
      auto const simulated = run(small.model, small_config(stage, file), 4, work(), machine(link_bytes_per_s));
      CHECK(simulated.step_ms >= 1e3 * static_cast<double>(simulated.bytes_sent) / link_bytes_per_s - 0.01);
      CHECK(simulated.step_ms >= 2 * 19);
    }
  }
}

TEST_CASE("Math in fp32 has the machine's fp32 peak, if it has one") {
  SmallModel const small;
  auto halved = machine(fast);
  halved.fp32_peak_flops_per_s = halved.peak_flops_per_s / 2;
  auto const simulated = run(small.model, small_config(0), 1, work(), halved);
  CHECK(simulated.step_ms == Approx(2 * 2 * 19));
  CHECK(simulated.mfu == Approx(18.0 / 19));
  CHECK(halved.peak(Dtype::fp32) == 0.5e9);
  CHECK(halved.peak(Dtype::bf16) == 1e9);
  CHECK(machine(fast).peak(Dtype::fp32) == 1e9);
}

TEST_CASE("Simulating all ranks takes the same step time as one rank for all") {
  SmallModel const small;
  for (int const stage : {0, 3}) {
    auto const one = run(small.model, small_config(stage), 4, work(), machine(slow));
    auto const all = run(small.model, small_config(stage), 4, work(), machine(slow), {.all_ranks = true});
    CHECK(all.step_ms == Approx(one.step_ms));
    CHECK(all.bytes_sent == one.bytes_sent);
    auto const late =
        run(small.model, small_config(stage), 4, work(), machine(fast), {.all_ranks = true, .slowdown = {{2, 3.0}}});
    CHECK(late.step_ms == Approx(2 * 19 * 3).epsilon(0.01));  // all ranks wait for rank 2
    CHECK(late.exposed_comm_ms > 2 * 19);
  }
}

TEST_CASE("A timeline contains every turn, and work of a stream does not overlap") {
  SmallModel const small;
  testing::SmallFile const file{.accumulation = 2, .zero = R"(, "overlap_comm": true)"};
  auto const simulated = run(small.model, small_config(3, file), 2, work(), machine(slow), {.timelines = true});
  REQUIRE(simulated.timelines.size() == 1);
  auto const spans = simulated.timelines[0].spans();
  auto const count = [&](char const* stream, char const* what) {
    return std::ranges::count_if(spans, [&](Span const& s) { return s.stream == stream && s.what == what; });
  };
  CHECK(count("compute", "forward") == 2 * 3);
  CHECK(count("compute", "backward") == 2 * 3);
  CHECK(count("compute", "update") == 3);
  CHECK(count("compute", "wait") > 0);
  CHECK(count("gather", "gather") > 0);
  CHECK(count("reduce", "reduce") > 0);
  CHECK(count("reduce", "decide") == 1);
  for (auto const* const stream : {"compute", "gather", "reduce"}) {
    double end = 0;
    for (auto const& span : spans) {
      if (span.stream == stream) {
        CHECK(span.begin_us >= end - 1e-6);
        CHECK(span.end_us >= span.begin_us);
        end = span.end_us;
      }
    }
  }
  double waited = 0;
  for (auto const& span : spans) {
    CHECK(span.begin_us >= 0);
    CHECK(span.end_us <= Approx(1e3 * simulated.step_ms));
    waited += span.stream == "compute" && span.what == "wait" ? span.end_us - span.begin_us : 0;
  }
  CHECK(waited * 1e-3 == Approx(simulated.exposed_comm_ms));
}

TEST_CASE("Simulating a trillion parameters on a thousand ranks needs little memory") {
  Model model;
  std::vector<UnitWork> many;
  for (int i = 0; i < 100; ++i) {
    auto const unit = model.unit(fmt::format("block{}", i));
    static_cast<void>(model.param(unit, fmt::format("w{}", i), {100'000, 100'000}, Normal{1}));
    many.push_back({2e10, 4e10});
  }
  for (int const stage : {0, 3}) {
    auto const config = Config::from_json(fmt::format(
        R"({{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": {}}}}})",
        stage));
    auto const simulated = run(model, config, 1024, many, machine_of("8xH100"));
    CHECK(simulated.memory == plan(model, config, 1024).bytes);
    CHECK(simulated.step_ms > 0);
  }
}

TEST_CASE("Muon on simulated GPUs has their workspace, and computes both halves of symmetric results") {
  Model model;
  auto const unit = model.unit("block");
  static_cast<void>(model.param(unit, "w", {100, 200}, Normal{1}, {.matrix = true}));
  auto const config = Config::from_json(R"({"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Muon"}})");
  auto gpu = machine(fast);
  gpu.host_bytes_per_s = 1e12;
  std::vector<UnitWork> const one{{1e6, 2e6}};
  auto const on_cpu = run(model, config, 1, one, machine(fast));
  auto const on_gpu = run(model, config, 1, one, gpu);
  CHECK(on_cpu.memory == plan(model, config, 1).bytes);
  CHECK(on_gpu.memory == plan(model, config, 1, {.device = DeviceKind::cuda}).bytes);
  CHECK(on_gpu.memory.scratch > on_cpu.memory.scratch + (32 << 20) - (1 << 20));
  CHECK(on_gpu.step_ms - on_cpu.step_ms == Approx(5 * (1e4 * 200 + 1e6) / 1e6));
}

TEST_CASE("Attention has its own rate, and activations and parameters cost memory bandwidth") {
  SmallModel const small;
  auto const step_ms = [&](std::vector<UnitWork> const& work, CodeRates const& rates, double bytes_per_s) {
    auto on = machine(fast);
    on.rates = rates;
    on.memory_bytes_per_s = bytes_per_s;
    return run(small.model, small_config(0), 1, work, on).step_ms;
  };
  auto attending = work();
  attending[1].attention_flops = 1e6;  // of 3e6, and so 2e6 of the 6e6 of backward
  attending[2].attention_flops = 2e6;  // all of it, and of the 5e6 of backward
  double const base = step_ms(work(), {}, 1e15);
  constexpr double micro_steps = 2;                     // of small_config()
  CHECK(step_ms(attending, {}, 1e15) == Approx(base));  // the same rate
  CHECK(step_ms(attending, {.attention_efficiency = 0.5}, 1e15) == Approx(base + micro_steps * (3 + 7)).epsilon(1e-6));
  CHECK(step_ms(work(), {.math_efficiency = 0.5, .attention_efficiency = 0.25}, 1e15) ==
        Approx(2 * base).epsilon(1e-3));

  auto active = work();
  active[0].activation_elements = 1e6;  // one third in forward, two in backward
  active[2].activation_elements = 1e6;  // and one third more if forward is recomputed
  double const slow_memory = step_ms(work(), {}, 1e9);
  CHECK(step_ms(active, {}, 1e9) == Approx(slow_memory));
  CHECK(step_ms(active, {.activation_passes = 3}, 1e9) ==
        Approx(slow_memory + micro_steps * (3 + 4) * 4).epsilon(1e-6));
  active[2].matrix_elements = 2e6;  // as activations
  CHECK(step_ms(active, {.parameter_passes = 3}, 1e9) == Approx(slow_memory + micro_steps * 2 * 4 * 4).epsilon(1e-6));
  CHECK(step_ms(active, {.activation_passes = 3, .parameter_passes = 3}, 1e9) ==
        Approx(slow_memory + micro_steps * (3 + 4 + 2 * 4) * 4).epsilon(1e-6));

  auto recomputing = work();
  recomputing[0].attention_flops = recomputing[0].forward_flops / 2;
  double const before = step_ms(recomputing, {.attention_efficiency = 0.5}, 1e15);
  recomputing[0].recompute_flops = recomputing[0].forward_flops * 0.75;  // attention's part is unchanged
  double const added = 1e-6 * recomputing[0].forward_flops * (0.25 + 2 * 0.5);
  CHECK(step_ms(recomputing, {.attention_efficiency = 0.5}, 1e15) ==
        Approx(before + micro_steps * added).epsilon(1e-6));
}

TEST_CASE("Math waits for stragglers, more on more nodes") {
  SmallModel const small;
  auto on = machine(fast);
  on.ranks_per_node = 2;
  double const none = run(small.model, small_config(0), 8, work(), on).step_ms;
  on.straggler_per_doubling = 0.1;
  CHECK(run(small.model, small_config(0), 2, work(), on).step_ms == Approx(none).epsilon(1e-3));
  CHECK(run(small.model, small_config(0), 8, work(), on).step_ms == Approx(none * 1.2).epsilon(1e-3));
}

TEST_CASE("Ordered collectives start in the order in which a rank issued them") {
  SmallModel const small;
  auto on = machine(1e6);  // reductions take longer than math, so gathers issued after them wait
  auto const config = small_config(3);
  auto const free = run(small.model, config, 4, work(), on);
  on.ordered_collectives = true;
  auto const ordered = run(small.model, config, 4, work(), on);
  CHECK(ordered.step_ms >= free.step_ms);
  CHECK(ordered.bytes_sent == free.bytes_sent);
  on = machine(fast);
  on.ordered_collectives = true;
  CHECK(run(small.model, config, 4, work(), on).step_ms ==
        Approx(run(small.model, config, 4, work(), machine(fast)).step_ms));
}

TEST_CASE("A simulation that does not fit the model is refused") {
  SmallModel const small;
  using Catch::Contains;
  std::vector<UnitWork> const too_little{{1, 2}};
  CHECK_THROWS_WITH(run(small.model, small_config(0), 2, too_little, machine(fast)),
                    Contains("work is given for 1 units, but the model has 3"));
  CHECK_THROWS_WITH(run(small.model, small_config(0), 0, work(), machine(fast)), Contains("world is 0"));
  CHECK_THROWS_WITH(run(small.model, small_config(0), 2, work(), machine(fast), {.slowdown = {{1, 2}}}),
                    Contains("set all_ranks"));
  CHECK_THROWS_WITH(
      run(small.model, small_config(0), 2, work(), machine(fast), {.all_ranks = true, .slowdown = {{2, 2}}}),
      Contains("slowdown of rank 2 by 2: ranks are 0 to 1"));
  CHECK_THROWS_WITH(
      run(small.model, small_config(0), 2, work(), machine(fast), {.all_ranks = true, .slowdown = {{1, 0}}}),
      Contains("slowdown of rank 1 by 0") && Contains("factors above 0"));
}

TEST_CASE("A simulation of one rank or of all rejects the engine's errors with the same message") {
  SmallModel const small;
  auto const config = Config::from_json(R"({"train_batch_size": 8})");
  for (bool const all_ranks : {false, true}) {
    CHECK_THROWS_WITH(run(small.model, config, 3, work(), machine(fast), {.all_ranks = all_ranks}),
                      Catch::Contains("8 is not a multiple of 3 (world size)") && !Catch::Contains("simulated rank"));
  }
}

TEST_CASE("Virtual devices, streams and communicators reject unsupported requests") {
  using Catch::Contains;
  auto const some = machine(fast);
  VirtualDevice device{some};
  for (auto const category : {device::Category::slots, device::Category::scratch}) {
    CHECK_THROWS_WITH(device.allocate(category, -1), Contains("bytes must not be negative"));
  }
  CHECK(device.allocate(device::Category::scratch, 0)->data() == nullptr);
  CHECK(VirtualDevice::is_real(device.allocate(device::Category::scratch, 100)->data()));
  CHECK_FALSE(VirtualDevice::is_real(device.allocate(device::Category::slots, 100)->data()));
  auto const cpu = device::make_cpu_device();
  CHECK_THROWS_WITH(as_virtual(cpu->compute()), Contains("a stream of another device"));
  VirtualJob job{some, 4, {0}};
  auto const world = job.communicator(0);
  CHECK(world->split(0, 0, "same")->world() == 4);
  CHECK_THROWS_WITH(world->split(1, 0, "half"),
                    Contains("split(1, 0) of a simulated communicator by rank 0, of which split(0, 0) was expected"));
  CHECK_THROWS_WITH(world->split(0, 3, "turned"), Contains("of which split(0, 0) was expected"));
  VirtualJob in_pairs{some, 4, {0}, [](comm::Group const&, std::size_t, int rank) {
                        return comm::SplitRequest{rank / 2, 1 - rank % 2};
                      }};
  auto const pair = in_pairs.communicator(0)->split(0, 1, "pair");
  CHECK(pair->world() == 2);
  CHECK(pair->rank() == 1);
  CHECK(pair->job_rank(0) == 1);
}

}  // namespace zeroth::simulate
