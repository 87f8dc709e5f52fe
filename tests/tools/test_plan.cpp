// SPDX-License-Identifier: Apache-2.0
/// Compares plans with the ZeRO paper, and with the library's own.
#include "plan.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "plan_support.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/engine.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/simulate/simulate.hpp"

namespace zeroth::tools {
namespace {

/// Parameters, gradients and optimizer states of stages 0 to 3 without padding, in GB of 10^9 bytes.
std::array<double, 4> state_gigabytes(std::int64_t parameters, int world) {
  std::array<double, 4> gigabytes{};
  for (auto const& stage : plan_stages(input_for(equal_units(parameters), mixed, world))) {
    auto const states = stage.plan.value().without_padding();
    gigabytes.at(static_cast<std::size_t>(stage.stage)) =
        1e-9 * static_cast<double>(states.parameters + states.gradients + states.optimizer);
  }
  return gigabytes;
}

enum class Printed { rounded, cut };

/// Whether `value` has the digits of `printed`. The paper rounds one column and truncates the others.
bool prints_as(double value, std::string const& printed, Printed how) {
  auto const point = printed.find('.');
  auto const scale = point == std::string::npos ? 1.0 : std::pow(10.0, static_cast<double>(printed.size() - point - 1));
  // Shares are rounded up to whole elements, so values are never below the paper's, except for floating-point error.
  auto const units = std::floor(value * scale * (1 + 1e-12) + (how == Printed::rounded ? 0.5 : 0.0));
  return units == std::round(std::stod(printed) * scale);
}

struct Cell {
  char const *stage_1, *stage_2, *stage_3;
};
struct PublishedRow {
  int world;
  Cell of_7_5b, of_128b, of_1t;
};

// Rajbhandari et al., ZeRO (arXiv 1910.02054), table 1: GB per device.
constexpr PublishedRow table_1[] = {
    {1, {"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}},
    {4, {"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}},
    {16, {"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}},
    {64, {"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}},
    {256, {"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}},
    {1024, {"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}},
};

void check_cell(std::int64_t parameters, int world, Cell const& cell, Printed how) {
  auto const gigabytes = state_gigabytes(parameters, world);
  INFO(fmt::format("{} parameters on {} ranks: {}, {}, {}", parameters, world, gigabytes[1], gigabytes[2],
                   gigabytes[3]));
  CHECK(prints_as(gigabytes[1], cell.stage_1, how));
  CHECK(prints_as(gigabytes[2], cell.stage_2, how));
  CHECK(prints_as(gigabytes[3], cell.stage_3, how));
}

TEST_CASE("The plan reproduces table 1 of the ZeRO paper") {
  for (auto const& [world, of_7_5b, of_128b, of_1t] : table_1) {
    check_cell(7'500'000'000, world, of_7_5b, Printed::rounded);
    check_cell(128'000'000'000, world, of_128b, Printed::cut);
    check_cell(1'000'000'000'000, world, of_1t, Printed::cut);
  }
}

TEST_CASE("7.5 billion parameters on 64 ranks need 120, 31.4, 16.6 and 1.9 GB") {
  auto const gigabytes = state_gigabytes(7'500'000'000, 64);
  CHECK(prints_as(gigabytes[0], "120", Printed::rounded));
  CHECK(prints_as(gigabytes[1], "31.4", Printed::rounded));
  CHECK(prints_as(gigabytes[2], "16.6", Printed::rounded));
  CHECK(prints_as(gigabytes[3], "1.9", Printed::rounded));
}

TEST_CASE("Digits are compared as they are printed") {
  CHECK(prints_as(41.25, "41.3", Printed::rounded));
  CHECK_FALSE(prints_as(41.25, "41.3", Printed::cut));
  CHECK(prints_as(2218.75, "2218", Printed::cut));
  CHECK_FALSE(prints_as(2218.75, "2218", Printed::rounded));
  CHECK_FALSE(prints_as(2219.0, "2218", Printed::cut));
}

TEST_CASE("A stage's total equals the library's plan for that stage, and the ledger of a step") {
  auto const source = read_model({.model = "124M"});
  for (int const world : {1, 3, 64}) {
    auto const input = input_for(source.model, file_of_stage(1, R"(, "fp16": {"enabled": true})"), world);
    for (auto const& [stage, planned, sent, refused] : plan_stages(input)) {
      INFO("stage " << stage << ", " << world << " ranks");
      auto const config = Config::from_json(file_of_stage(stage, R"(, "fp16": {"enabled": true})"));
      auto const bytes = zeroth::plan(source.model, config, world).bytes;
      REQUIRE(planned);
      CHECK(planned->bytes == bytes);
      CHECK(planned->without_padding().parameters <= bytes.parameters);
      CHECK(planned->without_padding().total() + planned->padding.total() == bytes.total());
      std::vector<simulate::UnitWork> const none(source.model.description().units.size());
      auto const run = simulate::run(source.model, config, world, none, simulate::machine_of("8xH100"));
      CHECK(run.memory == planned->bytes);
      CHECK(run.bytes_sent == sent);
    }
  }
}

TEST_CASE("A step sends twice the parameters, and three times at stage 3, except its own share, padding and scalars") {
  constexpr std::int64_t count = 128 * 64 * 1000;
  auto const model = equal_units(32 * count);
  constexpr std::int64_t all = 2 * 32 * count;  // bytes
  auto const input = input_for(model, mixed, 64);
  for (auto const& stage :
       plan_stages(changed(input, R"({"zero_optimization": {"stage3_prefetch_bucket_size": 0}})"))) {
    INFO("stage " << stage.stage << " sends " << stage.bytes_sent_per_step << " of " << all);
    auto const times = stage.stage == 3 ? 3 : 2;
    auto const least = times * (all / 64 * 63);
    // Stage 3 keeps the last unit of forward for backward, and gathers it only once.
    auto const kept = stage.stage == 3 ? all / 32 / 64 * 63 : 0;
    CHECK(stage.bytes_sent_per_step >= least - kept);
    CHECK(stage.bytes_sent_per_step < least - kept + 10'000);
  }
  CHECK(plan_stages(input_for(model, mixed, 1))[3].bytes_sent_per_step == 0);
}

TEST_CASE("A pipeline is planned by the stage that holds most, at every stage of ZeRO") {
  auto const source = read_model({.model = "124M", .untied_head = true});
  auto const input = input_for(source.model,
                               R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8,
                                   "bf16": {"enabled": true}, "zeroth": {"mesh": {"pipeline": 4}}})",
                               8);
  for (auto const& stage : plan_stages(input)) {
    INFO("stage " << stage.stage);
    REQUIRE(stage.plan);
    auto const& plan = *stage.plan;
    REQUIRE(plan.pipeline.size() == 4);
    CHECK(plan.data_ranks == 2);
    CHECK(plan.parameter_count == source.model.description().count);
    std::int64_t units = 0;
    for (std::size_t number = 0; number < 4; ++number) {
      auto const& row = plan.pipeline[number];
      units += row.units;
      CHECK(row.bytes.total() <= plan.bytes.total());
      CHECK(row.in_flight == 4 - static_cast<int>(number));
      constexpr std::int64_t message = std::int64_t{2} * 1024 * 768 * 2;  // bytes
      auto const inputs = number == 0 ? 0 : row.in_flight + 2;
      CHECK(row.message_bytes == message * (inputs + (number == 3 ? 0 : 3)));
    }
    CHECK(units == 14);
    CHECK(plan.pipeline[plan.largest_stage].bytes == plan.bytes);
  }
}

TEST_CASE("Models that tensor ranks divide are planned and simulated by the part of one rank") {
  auto const text = [](int stage, int pipeline, int tensor) {
    return fmt::format(
        R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {{"enabled": true}},
                            "zero_optimization": {{"stage": {}}}, "zeroth": {{"mesh": {{"pipeline": {}, "tensor": {}}}}}}})",
        stage, pipeline, tensor);
  };
  auto const whole = read_model({.model = "124M", .untied_head = true});
  for (int const pipeline : {1, 2}) {
    for (int const tensor : {2, 4}) {
      auto const source = read_model({.model = "124M", .untied_head = true, .tensor_ranks = tensor});
      int const world = 2 * pipeline * tensor;
      for (auto const& [stage, planned, sent, refused] :
           plan_stages(input_for(source.model, text(1, pipeline, tensor), world))) {
        CAPTURE(stage, pipeline, tensor, refused);
        REQUIRE(planned);
        CHECK(planned->data_ranks == 2);
        CHECK(planned->parameter_count == whole.model.description().count);
        CHECK(planned->tensor_rank_count < planned->parameter_count / tensor * 11 / 10);
        std::vector<simulate::UnitWork> const none(source.model.description().units.size());
        auto const run = simulate::run(source.model, Config::from_json(text(stage, pipeline, tensor)), world, none,
                                       simulate::machine_of("8xH100"));
        CHECK(run.memory == planned->bytes);
        CHECK(run.bytes_sent == sent);
      }
    }
  }
  // A block has two sums, in forward and in backward; each rank sends 2 (T - 1) / T of each.
  auto const sent = [&](int tensor) {
    auto const source = read_model({.model = "124M", .untied_head = true, .tensor_ranks = tensor});
    return plan_stages(input_for(source.model, text(0, 1, tensor), tensor))[0].bytes_sent_per_step;
  };
  constexpr std::int64_t activations = std::int64_t{2} * 1024 * 768 * 2;  // bytes per micro-step
  auto const sums = 4 * 2 * (12 * 2 + 1) * activations;
  CHECK(sent(1) == 0);
  CHECK(sent(2) >= sums);
  CHECK(sent(2) < sums + 100'000);
  auto const told =
      testing::thrown<ConfigError>([&] { static_cast<void>(read_model({.model = "124M", .tensor_ranks = 5})); });
  CHECK(told ==
        "preset 124M: has 12 heads, which zeroth.mesh.tensor, 5, does not divide; allowed: divisors of the number of "
        "heads");
  auto const equal = testing::thrown<ConfigError>(
      [&] { static_cast<void>(read_model({.model = {}, .parameters = 1000, .tensor_ranks = 2})); });
  CHECK(equal == "zeroth.mesh.tensor 2 with --parameters: allowed with a preset, and with a Hugging Face config.json");
}

TEST_CASE("With sequence parallelism a stage of a pipeline sends the rows that a tensor rank has") {
  auto const input_of = [](bool sequence) {
    auto const model = read_model({.model = "124M", .tensor_ranks = 4, .sequence = sequence});
    return model.model.description().units[id_at<UnitId>(1)].input_per_sample;
  };
  CHECK(input_of(false) == 1024 * 768);
  CHECK(input_of(true) == 1024 * 768 / 4);
  CHECK(testing::thrown<ConfigError>([] {
          static_cast<void>(read_model({.model = "124M", .context = 1022, .tensor_ranks = 4, .sequence = true}));
        }) ==
        "preset 124M: a sequence has 1022 tokens, which zeroth.mesh.tensor with zeroth.sequence_parallel, 4, does not "
        "divide; allowed: multiples of it");
}

TEST_CASE("Models that a pipeline cannot divide are rejected with what is allowed") {
  auto const piped = [](Model model, int stages, std::string const& more = "") {
    return plan_stages(input_for(std::move(model),
                                 R"({"train_micro_batch_size_per_gpu": 1, "zeroth": {"mesh": {"pipeline": )" +
                                     std::to_string(stages) + "}" + more + "}}",
                                 12));
  };
  auto const told = testing::thrown<ConfigError>(
      [&] { return piped(read_model({.model = "124M"}).model, 2, R"(, "tied_gradients": "together")"); });
  CHECK(told.find("zeroth.tied_gradients is \"together\", but parameter \"transformer.wte.weight\" belongs to unit "
                  "\"transformer.embedding\" in stage 0") != std::string::npos);
  auto const few = testing::thrown<ConfigError>(
      [&] { return piped(read_model({.model = {}, .parameters = 1000, .units = 4}).model, 2); });
  CHECK(few.find("the model has 1 unit that a stage may begin with") != std::string::npos);
  auto const equal = read_model({.model = {}, .parameters = 1000, .units = 4, .channels = 10, .context = 7});
  // A single micro-step receives nothing ahead: one input, one output, and a gradient of each.
  CHECK(piped(equal.model, 4)[3].plan.value().pipeline[1].message_bytes == 4 * 70 * 4);
  auto const uneven = testing::thrown<ConfigError>([&] { return piped(equal.model, 5); });
  CHECK(uneven.find("zeroth.mesh.pipeline is 5, which does not divide 12 ranks") != std::string::npos);
}

TEST_CASE("A stage at which the file contradicts itself is rejected alone") {
  // Stage 2 reduces every micro-step and may sum the reduced gradients in bf16; stages 0 and 1 reduce sums in fp32.
  auto const config = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
                          "communication_data_type": "bf16", "data_types": {"grad_accum_dtype": "bf16"},
                          "zero_optimization": {"stage": 2}})";
  auto const stages = plan_stages(input_for(equal_units(1000), config, 2));
  REQUIRE(stages.size() == 4);
  for (int const stage : {0, 1}) {
    CHECK_FALSE(stages[static_cast<std::size_t>(stage)].plan);
    CHECK(stages[static_cast<std::size_t>(stage)].refused.find("data_types.grad_accum_dtype") != std::string::npos);
  }
  CHECK(stages[2].plan);
  CHECK(stages[3].plan);
}

TEST_CASE("A file that does not fit the number of ranks is rejected") {
  auto const input = input_for(equal_units(1000), R"({"train_batch_size": 8})", 3);
  auto const message = testing::thrown<ConfigError>([&] { return plan_stages(input); });
  CHECK(message ==
        "<text>: 1 problem\n  train_batch_size (line 1): 8 is not a multiple of 3 (world size); nearest: 6 or 9; "
        "ranks that suit it: 1, 2, 4, 8");
}

}  // namespace
}  // namespace zeroth::tools
