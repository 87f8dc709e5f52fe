// SPDX-License-Identifier: Apache-2.0
/// The results of `zeroth simulate`, and its output as text and as JSON.
#include "simulation.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "plan_support.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::tools {
namespace {

using nlohmann::json;

struct Case {
  std::string config = mixed;
  int world = 8;
  simulate::Machine machine = simulate::machine_of("8xH100");
  bool recompute = false;
  simulate::Options options = {};
};

SimulationRequest request_of(Case const& with) {
  return {.config_file = "stage.json",
          .config = Config::from_json(with.config),
          .world = with.world,
          .machine = with.machine,
          .code = {},
          .context = 1024,
          .recompute = with.recompute,
          .options = with.options};
}
Simulations simulated(Case const& with = {}, std::string const& preset = "124M") {
  return simulate_stages(read_model({.model = preset}), request_of(with));
}
simulate::Simulation const& at(Simulations const& simulations, int stage) {
  return simulations.stages.at(static_cast<std::size_t>(stage)).result.value();
}
std::string overlapping(int stage, int accumulation = 1) {
  return fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {}, "bf16": {{"enabled": true}},
          "zero_optimization": {{"stage": {}, "overlap_comm": true}}}})",
      accumulation, stage);
}
bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

TEST_CASE("On 1,024 H100, groups per machine with two-level sums take two thirds of stage 3's step") {
  auto const step_ms = [](std::string const& zero, std::string const& zeroth) {
    Case const with{.config = fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}},
                        "zero_optimization": {{"stage": 3, "overlap_comm": true{}}}, "zeroth": {{{}}}}})",
                                          zero, zeroth),
                    .world = 1024};
    auto request = request_of(with);
    request.context = 2048;
    return at(simulate_stages(read_model({.model = "7.5B"}), request), 3).step_ms;
  };
  auto const flat = step_ms("", "");
  auto const hpz = step_ms(R"(, "zero_hpz_partition_size": 8)", "");
  auto const hpz_two_levels = step_ms(R"(, "zero_hpz_partition_size": 8)", R"("two_level_sums": true)");
  auto const mics = step_ms(R"(, "mics_shard_size": 8)", R"("two_level_sums": true)");
  CHECK(hpz_two_levels <= 0.67 * flat);
  CHECK(hpz < 0.69 * flat);
  CHECK(hpz_two_levels < hpz);
  CHECK(mics < 0.67 * flat);
  // The figures in docs/groups.md.
  CHECK(flat == Approx(556.4).epsilon(1e-3));
  CHECK(hpz_two_levels == Approx(366.6).epsilon(1e-3));
}

TEST_CASE("Units that the file recomputes take their forward again, in proportion") {
  auto const step_ms = [](std::string const& units, bool recompute = false) {
    auto const keys =
        units.empty() ? std::string{} : fmt::format(R"("activation_checkpointing": {{"units": {}}})", units);
    return at(simulated({.config = fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "zeroth": {{{}}}}})", keys),
                         .world = 1,
                         .recompute = recompute}),
              0)
        .step_ms;
  };
  auto const kept = step_ms("");
  auto const all = step_ms(R"("all")");
  CHECK(all > 1.2 * kept);
  CHECK(all == step_ms("", true));
  CHECK(step_ms(R"("none")") == kept);
  auto const half = step_ms(R"("every 2")");  // six of twelve blocks
  CHECK(half - kept == Approx((all - kept) / 2).epsilon(0.05));
  CHECK_THAT(zeroth::testing::thrown<ConfigError>([&] { return step_ms(R"(["blok"])"); }),
             Catch::Contains("zeroth.activation_checkpointing.units: \"blok\" is no unit of the model"));
}

TEST_CASE("A layout of attention leaves its density of attention's operations") {
  auto const step_ms = [](std::string const& layout, bool recompute = false) {
    return at(simulated({.config = fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "zeroth": {{{}}}}})", layout),
                         .world = 1,
                         .recompute = recompute}),
              0)
        .step_ms;
  };
  auto const with = [](std::string const& keys) {
    return fmt::format(R"("sparse_attention": {{"block": 32, "attention": "unidirectional", {}}})", keys);
  };
  auto const density = [](SparseAttention parameters) {
    parameters.block = 32;
    parameters.attention = AttentionDirection::unidirectional;
    return BlockLayout{parameters, 1, 1024}.density();
  };
  auto const dense = step_ms("");
  CHECK(step_ms(with(R"("mode": "dense")")) == dense);
  double const window = density({.mode = SparseMode::local_sliding_window});
  double const saved = dense - step_ms(with(R"("mode": "local_sliding_window")"));
  CHECK(saved > 0.02 * dense);
  double const fixed = density({.mode = SparseMode::fixed});
  CHECK((dense - step_ms(with(R"("mode": "fixed")"))) / saved == Approx((1 - fixed) / (1 - window)).epsilon(1e-6));
  // Recomputation repeats forward; backward takes twice as long as forward.
  CHECK((step_ms("", true) - step_ms(with(R"("mode": "local_sliding_window")"), true)) / saved ==
        Approx(4.0 / 3).epsilon(1e-6));
  CHECK_THAT(zeroth::testing::thrown<ConfigError>(
                 [&] { static_cast<void>(step_ms(R"("sparse_attention": {"mode": "dense", "block": 48})")); }),
             Catch::Contains("zeroth.sparse_attention.block: 48, which does not divide the context, 1024"));
}

TEST_CASE("The tool shows groups with their ranks and nodes, and other stages without groups") {
  auto const config = R"({"train_micro_batch_size_per_gpu": 1, "zeroth": {"two_level_sums": false},
                          "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 16}})";
  Case const with{.config = config, .world = 64};
  auto const simulations = simulated(with);
  auto const text = as_text(simulations, request_of(with));
  INFO(text);
  CHECK(contains(text, "parameters are sharded within groups of 16, each on up to 2 nodes"));
  CHECK_FALSE(contains(text, "refused"));
  auto const plan = zeroth::plan(simulations.model.model, Config::from_json(config), 64);
  CHECK(plan.parameter_ranks == 16);
  CHECK(plan.optimizer_ranks == 64);
  REQUIRE(plan.communicators.size() == 4);
  CHECK(plan.communicators[1].name == "gather-group");
  CHECK(plan.communicators[1].ranks.size() == 16);
  CHECK(plan.communicators[3].name == "reduce-replicas");
  CHECK(plan.communicators[3].ranks == std::vector{0, 16, 32, 48});
  auto const explained = explain_plan(plan);
  INFO(explained);
  CHECK(contains(explained,
                 "placements: parameters group, gradients shard, optimizer shard\n"
                 "groups: 4 of 16 consecutive ranks\n"
                 "communicators of rank 0: gather (ranks 0 to 63), gather-group (ranks 0 to 15), reduce (ranks "
                 "0 to 63), reduce-replicas (ranks 0, 16, 32 and 48)\n"));
}

TEST_CASE("In JSON, the numbers of a simulated stage are consistent, and match the plan") {
  for (auto const& [world, accumulation] : {std::pair{1, 1}, {8, 2}, {48, 1}}) {
    Case const with{.config = overlapping(3, accumulation), .world = world};
    auto const simulations = simulated(with);
    auto const parsed = json::parse(as_json(simulations, request_of(with)));
    CHECK(parsed["ranks"] == world);
    CHECK(parsed["model"]["name"] == "GPT 124M");
    CHECK(parsed["model"]["parameters"] == 124'439'808);
    CHECK(parsed["model"]["units"] == 14);
    CHECK(parsed["config"] == "stage.json");
    CHECK(parsed["stage"] == 3);
    CHECK(parsed["machine"] == "8xH100");
    CHECK(parsed["context"] == 1024);
    CHECK(parsed["tokens_per_step"] == 1024 * 2 * accumulation * world);
    CHECK(parsed["recompute"] == false);
    CHECK(parsed["slow"].empty());
    REQUIRE(parsed["stages"].size() == 4);
    auto const planned = plan_stages(input_for(simulations.model.model, overlapping(3, accumulation), world));
    for (std::size_t stage = 0; stage < 4; ++stage) {
      INFO("stage " << stage << ", " << world << " ranks");
      auto const& entry = parsed["stages"][stage];
      CHECK(entry["stage"] == stage);
      auto const step_ms = entry["step_ms"].get<double>();
      CHECK(step_ms > 0);
      CHECK(entry["exposed_comm_ms"].get<double>() >= 0);
      CHECK(entry["exposed_comm_ms"].get<double>() <= step_ms);
      CHECK(entry["mfu"].get<double>() > 0);
      CHECK(entry["mfu"].get<double>() <= simulate::machine_of("8xH100").rates.math_efficiency);
      CHECK(entry["tokens_per_s"].get<double>() == Approx(parsed["tokens_per_step"].get<double>() / (step_ms / 1000)));
      CHECK(entry["bytes_sent_per_step"] == planned[stage].bytes_sent_per_step);
      CHECK((entry["bytes_sent_per_step"] == 0) == (world == 1));
      CHECK(entry["total"] == planned[stage].plan->bytes.total());
      CHECK(entry["left"] == parsed["device_memory"].get<std::int64_t>() - entry["total"].get<std::int64_t>());
      CHECK(entry["fits"] == true);
      CHECK(entry["parameter_slots_used"] <= entry["parameter_slots"]);
      CHECK(entry["gradient_slots_used"] <= entry["gradient_slots"]);
      CHECK((entry["parameter_slots_used"] > 0) == (stage == 3));
      CHECK((entry["gradient_slots_used"] > 0) == (stage >= 2));
      CHECK(entry["prefetch_misses"] == 0);
    }
  }
}

TEST_CASE("A simulation prints a table and a picture") {
  Case with{.config = R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 3, "overlap_comm": true, "stage3_prefetch_bucket_size": 1}})",
            .world = 4};
  // 2^11 tokens x 6 operations x 4e6 elements at half of 1e12 per second: 98 ms of math.
  with.machine = {.name = "2x1",
                  .peak_flops_per_s = 1e12,
                  .rates = {.math_efficiency = 0.5},
                  .memory_bytes_per_s = 1e11,
                  .device_memory_bytes = 30 << 20,
                  .ranks_per_node = 2,
                  .node_bytes_per_s = 1e10,
                  .network_bytes_per_s = 1e9,
                  .ring = {{.start_us = 10, .step_us = 5, .network_step_us = 50}},
                  .tree = {},
                  .communication_share = 0.1,
                  .enqueue_us = 5,
                  .kernel_us = 5};
  auto const request = request_of(with);
  auto const model = read_model({.model = {}, .parameters = 4'000'000, .units = 4});
  CHECK("\n" + as_text(simulate_stages(model, request), request) == R"(
equal units: 4,000,000 parameters in 4 units; from --parameters
stage.json: stage 3 in bf16, overlap
4 ranks on 2x1, 2 per node
math at 50 % of 1 TFLOP/s, attention as well, no pass over activations, no pass over parameters
8,192 tokens a step: 4 ranks x 1 micro-step x 2 samples x 1,024 tokens

           step ms  of stage 0  exposed ms     MFU  tokens/s  MiB sent  MiB held  left of 30.00  slots  misses
stage 0     111.74       1.000       12.31  44.0 %    73,316     11.45     62.05    32.05 short  0 + 0       0
stage 1     106.66       0.955        7.59  46.1 %    76,801     11.45     27.71           2.29  0 + 0       0
stage 2     102.64       0.919        3.07  47.9 %    79,810     11.45     25.80           4.20  0 + 1       0
stage 3 *   103.26       0.924        3.07  47.6 %    79,335     14.31     23.89           6.11  2 + 1       0
* as requested. Exposed: math waits for communication. Sent, held: by a rank, without activations.
Slots: most in use, for parameters + gradients. Misses: gathers that began only when their unit was needed.

Stage 3, 103.26 ms:
 compute |.FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB..|
  gather |GGG......G.......G.............................GGG.............GGG..............................|
  reduce |...............................................R...............RR..............R..............RR|
F forward, B backward, U update; G gather, P publish, R reduce, D decide; . waits
)");
}

TEST_CASE("A pipeline has columns for its bubble, a line for each stage, and a table of schedules") {
  Case const with{.config = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
                                "bf16": {"enabled": true}, "zero_optimization": {"stage": 1, "overlap_comm": true},
                                "zeroth": {"mesh": {"pipeline": 4}}})",
                  .world = 16};
  auto const source = read_model({.model = "355M", .context = 1024, .untied_head = true});
  auto request = request_of(with);
  auto const stages = simulate_stages(source, request);
  CHECK(stages.tokens_per_step == 4 * 8 * 1024);
  auto const text = as_text(stages, request);
  CHECK(contains(text, "16 ranks on 8xH100, 8 per node\n"));
  CHECK(contains(text, "32,768 tokens a step: 4 ranks of a stage x 8 micro-steps x 1 sample x 1,024 tokens\n"));
  CHECK(contains(text, "exposed ms  bubble ms  of step"));
  CHECK(contains(text, "A pipeline of 4 stages of 4 ranks, 1f1b. Bubble: "));
  for (int stage = 0; stage < 4; ++stage) {
    CHECK(contains(text, fmt::format("\n stage {} |", stage)));
    auto const& result = at(stages, stage);
    REQUIRE(result.pipeline.size() == 4);
    CHECK(result.bubble_ms > 0.1 * result.step_ms);  // (4 - 1) / (8 + 4 - 1) of it, and a little more because stages
                                                     // are uneven
    CHECK(result.bubble_ms < 0.5 * result.step_ms);
  }
  auto const parsed = json::parse(as_json(stages, request));
  CHECK(parsed["stages"][2]["bubble_ms"] == at(stages, 2).bubble_ms);
  CHECK(parsed["stages"][2]["pipeline"][3]["total"] == at(stages, 2).pipeline[3].memory.total());
  auto const planned = plan_stages({source.model, request.config, with.world, {}});
  CHECK(planned[1].bytes_sent_per_step == at(stages, 1).bytes_sent);

  request.schedules = true;
  auto const schedules = simulate_stages(source, request);
  REQUIRE(schedules.stages.size() == std::size(pipeline_schedules));
  CHECK(contains(as_text(schedules, request), "of gpipe"));
  CHECK(contains(as_text(schedules, request), "\n1f1b * "));
  CHECK(schedules.asked_for().step_ms == at(stages, 1).step_ms);
  CHECK(schedules.stages[0].result->memory.total() > schedules.stages[1].result->memory.total());
  CHECK(json::parse(as_json(schedules, request))["stages"][0]["schedule"] == "gpipe");
  auto one_stage = request_of({});
  one_stage.schedules = true;
  CHECK(testing::thrown<ConfigError>([&] { return simulate_stages(source, one_stage); }) ==
        "--schedules: zeroth.mesh.pipeline is 1; allowed: 2 or more");
}

TEST_CASE("Each order of a mesh's axes has a row, fastest first, with the waits along each axis") {
  auto const of_mesh = [](int tensor, int pipeline, int world) {
    return Case{.config = fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
                                          "bf16": {{"enabled": true}},
                                          "zero_optimization": {{"stage": 1, "overlap_comm": true}},
                                          "zeroth": {{"mesh": {{"tensor": {}, "pipeline": {}}}}}}})",
                                      tensor, pipeline),
                .world = world};
  };
  auto const permuted = [](Case const& with, int tensor) {
    auto request = request_of(with);
    request.permute = true;
    return simulate_stages(read_model({.model = "6.7B", .context = 1024, .untied_head = true, .tensor_ranks = tensor}),
                           request);
  };
  auto const with = of_mesh(4, 4, 64);
  auto const all = permuted(with, 4);
  REQUIRE(all.stages.size() == 6);
  std::set<std::string> names;
  for (auto const& order : all.stages) {
    names.insert(name_of(order));
    REQUIRE(order.result);
    CHECK(order.stage == 1);
    CHECK(order.result->step_ms >= all.stages.front().result->step_ms);
    CHECK(order.result->memory == all.stages.front().result->memory);
    // Four tensor ranks are on one node if they are neighbours, and otherwise on two or more.
    bool const inside = order.nearness->front() == simulate::MeshAxis::tensor;
    CHECK((order.result->tensor_ms > 2 * all.stages.front().result->tensor_ms) == !inside);
  }
  CHECK(names.size() == 6);
  CHECK(all.stages.front().nearness->front() == simulate::MeshAxis::tensor);
  CHECK(all.asked_for().step_ms == at(simulate_stages(all.model, request_of(with)), 1).step_ms);
  CHECK(name_of(*std::ranges::find(all.stages, true, &SimulatedStage::asked_for)) == "tensor, data, pipeline");

  auto request = request_of(with);
  request.permute = true;
  auto const text = as_text(all, request);
  CHECK(contains(text, "nearest first"));
  CHECK(contains(text, "of first  tensor ms  pipeline ms  data ms     MFU  tokens/s\n"));
  CHECK(contains(text, "\ntensor, data, pipeline *  "));
  CHECK(contains(text, "\npipeline, data, tensor    "));
  auto const parsed = json::parse(as_json(all, request));
  REQUIRE(parsed["stages"].size() == 6);
  for (auto const& order : parsed["stages"]) {
    CHECK(order["nearness"].size() == 3);
    CHECK(order["tensor_ms"].get<double>() > 0);
    CHECK(order["bubble_ms"].get<double>() > 0);
  }

  CHECK(permuted(of_mesh(4, 1, 64), 4).stages.size() == 2);
  CHECK_FALSE(contains(as_text(permuted(of_mesh(4, 1, 64), 4), request_of(of_mesh(4, 1, 64))), "pipeline ms"));
  CHECK(permuted(of_mesh(1, 4, 64), 1).stages.size() == 2);
  CHECK(permuted(of_mesh(4, 4, 16), 4).stages.size() == 2);
  CHECK(testing::thrown<ConfigError>([&] { static_cast<void>(permuted(of_mesh(1, 1, 64), 1)); }) ==
        "--permute: a mesh of 1 tensor, 64 data and 1 pipeline ranks has only one order; allowed: meshes with several "
        "ranks along at least two axes");
  CHECK(contains(testing::thrown<ConfigError>([&] { static_cast<void>(permuted(of_mesh(4, 4, 40), 4)); }),
                 "zeroth.mesh.pipeline 4 times zeroth.mesh.tensor 4 is 16, which does not divide 40 ranks"));
}

TEST_CASE("Code that overlaps sums of tensor ranks waits less for them") {
  Case with{.config = R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
                          "zeroth": {"mesh": {"tensor": 4}}})",
            .world = 4};
  auto const tensor_ms = [&] {
    auto const source = read_model({.model = "6.7B", .tensor_ranks = 4});
    return at(simulate_stages(source, request_of(with)), 0).tensor_ms;
  };
  CHECK_FALSE(with.machine.rates.tensor_overlap);
  auto const in_turn_ms = tensor_ms();
  with.machine.rates.tensor_overlap = true;
  CHECK(tensor_ms() < 0.7 * in_turn_ms);
  CHECK(tensor_ms() > in_turn_ms / 2);  // forward's
  CHECK(simulate::machine_of("8xH100").running("fused").rates.tensor_overlap);
}

TEST_CASE("Parameter servers have a line, and other stages have the reason why they have none") {
  auto const with = [](int staleness) {
    return fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}}, "gradient_clipping": 0,
        "zero_optimization": {{"stage": 0, "overlap_comm": true}},
        "zeroth": {{"parameter_server": {{"servers": 2, "staleness": {}}}}}}})",
                       staleness);
  };
  for (int const staleness : {0, 2}) {
    Case const served{.config = with(staleness), .world = 6};
    auto const simulations = simulated(served);
    auto const request = request_of(served);
    auto const text = as_text(simulations, request);
    INFO(text);
    CHECK(contains(text, "4 workers x 1 micro-step"));
    CHECK(contains(text, "The row is of a worker. Each of 2 parameter servers sends "));
    CHECK(contains(text, "Workers may be stale") == (staleness > 0));
    CHECK(contains(text, "stage 1 is refused: "));
    CHECK(contains(text, "zero_optimization.stage is 1, and servers hold what stages divide among ranks"));
    auto const stage = json::parse(as_json(simulations, request))["stages"][0];
    auto const& planned = simulations.plan.servers;
    CHECK(stage["server"]["total"] == planned.bytes.total());
    CHECK(stage["server"]["bytes_sent_per_step"] >= planned.sent_bytes);
    CHECK(stage["server"]["bytes_sent_per_step"] < planned.sent_bytes + 10'000);
    CHECK(stage["bytes_sent_per_step"] >= planned.pushed_bytes);
    CHECK(stage["total"] == simulations.plan.bytes.total());
    CHECK(stage["tokens_per_s"] == Approx(4 * 1024 / (1e-3 * at(simulations, 0).step_ms)));
  }
}

TEST_CASE("A stage at which the file contradicts itself has the reason, in JSON and in text") {
  Case const with{.config = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
                                "communication_data_type": "bf16", "data_types": {"grad_accum_dtype": "bf16"},
                                "zero_optimization": {"stage": 2}})"};
  auto const simulations = simulated(with);
  auto const parsed = json::parse(as_json(simulations, request_of(with)));
  CHECK(contains(parsed["stages"][1]["refused"], "data_types.grad_accum_dtype"));
  CHECK_FALSE(parsed["stages"][1].contains("step_ms"));
  CHECK(parsed["stages"][2].contains("step_ms"));
  auto const text = as_text(simulations, request_of(with));
  CHECK(contains(text, "\nstage 0    refused, see below\n"));
  CHECK(contains(text, "stage 1 is refused: <text>: 1 problem\n  data_types.grad_accum_dtype"));
  CHECK(contains(text, "\nstage 2 *  "));
}

TEST_CASE("A file that does not fit the number of ranks is rejected") {
  Case const with{.config = R"({"train_batch_size": 8})", .world = 3};
  CHECK(contains(testing::thrown<ConfigError>([&] { return simulated(with); }), "8 is not a multiple of 3"));
}

TEST_CASE("One rank sends nothing, and hardly waits") {
  for (auto const& stage : simulated({.config = overlapping(3), .world = 1}, "1.5B").stages) {
    CHECK(stage.result->bytes_sent == 0);
    CHECK(stage.result->exposed_comm_ms < 0.01 * stage.result->step_ms);  // only copies and sums on the rank itself
  }
}

TEST_CASE("No step is shorter than its math, or than its communication on the links") {
  for (auto const* const preset : {"124M", "6.7B"}) {
    for (int const world : {8, 64}) {
      auto const with = Case{.config = overlapping(3), .world = world};
      auto const simulations = simulated(with, preset);
      for (int const stage : {0, 1, 2, 3}) {
        INFO(preset << " on " << world << " ranks, stage " << stage);
        auto const& result = at(simulations, stage);
        CHECK(result.mfu <= with.machine.rates.math_efficiency);
        CHECK(1e-3 * result.step_ms >= static_cast<double>(result.bytes_sent) / with.machine.node_bytes_per_s);
      }
    }
  }
}

TEST_CASE("More bandwidth never makes a step slower") {
  for (int const world : {8, 32}) {
    std::vector<double> last(4, std::numeric_limits<double>::infinity());
    for (double const factor : {0.03, 0.3, 1.0, 3.0, 30.0}) {
      Case with{.config = overlapping(3), .world = world};
      with.machine.node_bytes_per_s *= factor;
      with.machine.network_bytes_per_s *= factor;
      auto const simulations = simulated(with, "1.5B");
      for (std::size_t stage = 0; stage < 4; ++stage) {
        INFO(world << " ranks, stage " << stage << ", " << factor << " times the bandwidth");
        auto const step_ms = at(simulations, static_cast<int>(stage)).step_ms;
        CHECK(step_ms <= last[stage]);
        last[stage] = step_ms;
      }
    }
  }
}

TEST_CASE("Recompute costs a forward without the last products, and does not count as useful work") {
  Case with{.config = overlapping(3), .world = 1};
  with.machine.rates = {.math_efficiency = 0.5};
  auto const once = simulated(with, "1.5B");
  with.recompute = true;
  auto const twice = simulated(with, "1.5B");
  // The last product has 4 of 12 squared channel counts of a block, and all of the head.
  double const block = 12.0 * 1600 * 1600 + 2.0 * 1024 * 1600, head = 50'257.0 * 1600;
  double const part = 48 * (block - 4.0 * 1600 * 1600) / (48 * block + head);
  for (int const stage : {0, 1, 2, 3}) {
    auto const &a = at(once, stage), &b = at(twice, stage);
    double const useful_ms = 1e3 * b.mfu * b.step_ms / 1e3;  // as a share of the peak
    CHECK(useful_ms == Approx(a.mfu * a.step_ms));
    // Math takes mfu x step / efficiency; forward is a third of it.
    CHECK(b.step_ms - a.step_ms ==
          Approx(part * a.mfu * a.step_ms / with.machine.rates.math_efficiency / 3).epsilon(0.02));
  }
}

TEST_CASE("Tensor ranks divide math, and wait for their sums") {
  auto const of = [](int ranks) {
    Case const with{.config = fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "bf16": {{"enabled": true}},
                                               "zeroth": {{"mesh": {{"tensor": {}}}}}}})",
                                          ranks),
                    .world = ranks};
    auto const source = read_model({.model = "6.7B", .tensor_ranks = ranks});
    auto const simulations = simulate_stages(source, request_of(with));
    return std::pair{at(simulations, 0).step_ms, at(simulations, 0).bytes_sent};
  };
  auto const [one_ms, nothing] = of(1);
  auto const [two_ms, sent] = of(2);
  CHECK(nothing == 0);
  // 4 sums of a micro-batch's activations per block; a ring sends their full size.
  double const sums_ms = 1e3 * 32 * 4 * (2.0 * 1024 * 4096 * 2) / simulate::machine_of("8xH100").node_bytes_per_s;
  CHECK(sent >= 32 * 4 * std::int64_t{2 * 1024 * 4096 * 2});
  CHECK(two_ms > one_ms / 2 + sums_ms);
  CHECK(two_ms < one_ms);
}

TEST_CASE("A model that computes in fp32 is measured against the peak of fp32") {
  auto const config = [](char const* bf16) {
    return fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "bf16": {{"enabled": {}}}}})", bf16);
  };
  auto const narrow = simulated({.config = config("true"), .world = 1}, "1.5B");
  auto const wide = simulated({.config = config("false"), .world = 1}, "1.5B");
  CHECK(at(wide, 0).step_ms > 7 * at(narrow, 0).step_ms);
  CHECK(at(wide, 0).mfu <= 0.7);
  CHECK(at(wide, 0).mfu > at(narrow, 0).mfu);
  CHECK(contains(
      as_text(wide, request_of({.config = config("false"), .world = 1})),
      "math at 68 % of 67 TFLOP/s, attention at 32 %, 176 passes over activations, 8 passes over parameters\n"));
}

TEST_CASE("One slow rank makes all of them slow") {
  Case with{.config = overlapping(3), .world = 4, .options = {.all_ranks = true}};
  auto const even = simulated(with);
  with.options.slowdown = {{2, 2.0}};
  auto const uneven = simulated(with);
  for (int const stage : {0, 1, 2, 3}) {
    CHECK(at(uneven, stage).step_ms > 1.3 * at(even, stage).step_ms);
    CHECK(at(uneven, stage).exposed_comm_ms > at(even, stage).exposed_comm_ms);
  }
  CHECK(uneven.asked_for().timelines.size() == 4);
  auto const text = as_text(uneven, request_of(with));
  CHECK(contains(text, "\nrank 0\n compute |"));
  CHECK_FALSE(contains(text, "rank 1\n"));
  CHECK(contains(text, "\nrank 2, whose math takes 2 times as long\n compute |"));
  auto const parsed = json::parse(as_json(uneven, request_of(with)));
  CHECK(parsed["slow"] == json::parse(R"([{"rank": 2, "factor": 2.0}])"));
}

TEST_CASE("A slow tensor rank slows the ranks that sum with it") {
  Case const with{.config = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                                "zeroth": {"mesh": {"tensor": 2}}})",
                  .world = 6,
                  .options = {.all_ranks = true, .slowdown = {{3, 2.0}}}};
  auto const source = read_model({.model = "124M", .tensor_ranks = 2});
  auto const text = as_text(simulate_stages(source, request_of(with)), request_of(with));
  INFO(text);
  CHECK(contains(text, "\nranks 0 to 1\n compute |"));
  CHECK(contains(text, "\nranks 2 to 3, whose math takes 2 times as long\n compute |"));
  CHECK_FALSE(contains(text, "ranks 4 to 5"));
  CHECK(contains(text, "\n  tensor |"));
  CHECK(contains(text, "; S sum of tensor ranks; "));
  CHECK(contains(text, "Tensor: math waits for sums of tensor ranks"));
}

TEST_CASE("Late gathers are counted, and keys that would help are named") {
  auto const with_live = [](char const* live) {
    return fmt::format(
        R"({{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}},
            "zero_optimization": {{"stage": 3, "overlap_comm": true, "stage3_max_live_parameters": {}}}}})",
        live);
  };
  Case const few{.config = with_live("4e7"), .world = 64};
  Case const many{.config = with_live("2e8"), .world = 64};
  auto const late = simulated(few, "1.5B");
  auto const ahead = simulated(many, "1.5B");
  CHECK(late.asked_for().report.prefetch_misses > 80);
  CHECK(ahead.asked_for().report.prefetch_misses == 0);
  CHECK(ahead.asked_for().step_ms < late.asked_for().step_ms);
  auto const text = as_text(late, request_of(few));
  CHECK(contains(text, fmt::format("\n{} misses at stage 3: more is gathered ahead with a greater "
                                   "stage3_prefetch_bucket_size (50,000,000) or\n"
                                   "stage3_max_live_parameters (40,000,000, of the unit in use and all ahead). "
                                   "The largest unit has 80,411,200 parameters.\n",
                                   late.asked_for().report.prefetch_misses)));
  CHECK_FALSE(contains(as_text(ahead, request_of(many)), "misses at stage"));
}

TEST_CASE("Missing memory is shown if the machine has a memory size") {
  Case with{.config = overlapping(0), .world = 8};
  auto const text = as_text(simulated(with, "7.5B"), request_of(with));
  CHECK(contains(text, "left of 79.65"));
  CHECK(contains(text, " short"));
  with.machine.device_memory_bytes = 0;
  auto const unknown = as_text(simulated(with, "124M"), request_of(with));
  CHECK_FALSE(contains(unknown, "left of"));
  CHECK_FALSE(json::parse(as_json(simulated(with), request_of(with))).contains("device_memory"));
}

TEST_CASE("Times have a suitable unit") {
  Case with{.config = overlapping(3), .world = 2};
  CHECK(contains(as_text(simulated(with, "124M"), request_of(with)), "step ms"));
  with.machine.peak_flops_per_s /= 1e5;
  CHECK(contains(as_text(simulated(with, "124M"), request_of(with)), "step s "));
}

}  // namespace
}  // namespace zeroth::tools
