// SPDX-License-Identifier: Apache-2.0
/// Compares the bytes sent in a step of many micro-steps with a simulation of all of them.
#include <fmt/format.h>

#include <limits>
#include <random>

#include "plan_support.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/simulate/simulate.hpp"

namespace zeroth::tools {
namespace {

using simulate::bytes_sent_per_step;

std::int64_t simulated(Model const& model, Config const& config, int world) {
  std::vector<simulate::UnitWork> const none(model.description().units.size());
  return simulate::run(model, config, world, none, simulate::machine_of("8xH100")).bytes_sent;
}

std::string file(int stage, int micro_steps, std::string const& zero) {
  return fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {},
                          "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": {}{}}}}})",
                     micro_steps, stage, zero);
}

TEST_CASE("The bytes of five micro-steps and more equal those of a full simulation") {
  auto const gpt = read_model({.model = "124M"}).model;  // its head is tied
  for (auto const* const zero : {"", R"(, "overlap_comm": false)", R"(, "stage3_prefetch_bucket_size": 0)",
                                 R"(, "stage3_prefetch_bucket_size": 2e7, "stage3_max_live_parameters": 6e7)",
                                 R"(, "reduce_bucket_size": 1e7)"}) {
    for (int const stage : {0, 1, 2, 3}) {
      for (int const world : {1, 8}) {
        for (int const micro_steps : {1, 2, 3, 4, 5, 9}) {
          static testing::Sample sample{13, 1};
          if (sample.leaves_out()) {
            continue;
          }
          INFO("stage " << stage << zero << ", " << world << " ranks, " << micro_steps << " micro-steps");
          auto const config = Config::from_json(file(stage, micro_steps, zero));
          CHECK(bytes_sent_per_step(gpt, config, world) == simulated(gpt, config, world));
        }
      }
    }
  }
}

/// Units of any size: some frozen in part or as a whole, some with ties, some used more than once.
Model model_from(std::mt19937& random) {
  auto const upto = [&](int most) { return std::uniform_int_distribution{0, most}(random); };
  Model model;
  std::vector<Param<1>> tieable;
  auto const units = 1 + upto(9);
  for (int i = 0; i < units; ++i) {
    auto const unit = model.unit(fmt::format("unit{}", i), {.uses_per_micro_step = 1 + upto(5) / 5});
    for (int p = 0; p <= upto(2); ++p) {
      auto const param =
          model.param(unit, fmt::format("p{}.{}", i, p), {1 + upto(3000)}, Constant{0}, {.trainable = upto(3) > 0});
      if (upto(4) == 0) {
        tieable.push_back(param);
      }
    }
    if (i > 0 && !tieable.empty() && upto(3) == 0) {
      model.tie(model.unit(fmt::format("tied{}", i)),
                tieable[static_cast<std::size_t>(upto(static_cast<int>(tieable.size()) - 1))]);
    }
  }
  return model;
}

TEST_CASE("The bytes of random models equal those of a full simulation, with any slots and prefetch") {
  std::mt19937 random{7};
  for (int i = 0; i < (testing::sanitized ? 50 : 200); ++i) {
    auto const model = model_from(random);
    auto const prefetch = std::uniform_int_distribution{0, 8000}(random);
    auto const live = std::uniform_int_distribution{0, 30'000}(random);
    auto const config = Config::from_json(
        file(static_cast<int>(random() % 4), 5,
             fmt::format(R"(, "stage3_prefetch_bucket_size": {}, "stage3_max_live_parameters": {})", prefetch, live)));
    auto const world = 1 + static_cast<int>(random() % 5);
    INFO("model " << i << " on " << world << " ranks\n" << config.to_string());
    CHECK(bytes_sent_per_step(model, config, world) == simulated(model, config, world));
  }
}

TEST_CASE("The number of micro-steps may be derived from batch sizes") {
  auto const model = equal_units(1'000'000, 4);
  auto const derived = Config::from_json(
      R"({"train_batch_size": 80, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}})");
  auto const said = Config::from_json(
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 10, "zero_optimization": {"stage": 3}})");
  CHECK(bytes_sent_per_step(model, derived, 4) == bytes_sent_per_step(model, said, 4));
  CHECK(bytes_sent_per_step(model, derived, 4) == simulated(model, derived, 4));
}

TEST_CASE("More bytes than 64 bits can count are rejected with the allowed number of micro-steps") {
  auto const model = equal_units(1'000'000'000'000);
  auto const sent = [&](int micro_steps) {
    return bytes_sent_per_step(
        model,
        Config::from_json(fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": {},
                                           "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": 2}}}})",
                                      micro_steps)),
        2);
  };
  auto const each = sent(1001) - sent(1000);
  REQUIRE(each > 0);
  auto const most = 2 + (std::numeric_limits<std::int64_t>::max() - sent(2)) / each;
  CHECK(sent(static_cast<int>(most)) > std::numeric_limits<std::int64_t>::max() - each);
  CHECK_THAT(testing::thrown<ConfigError>([&] { return sent(1073741823); }),
             Catch::Contains("gradient_accumulation_steps is 1073741823: ") &&
                 Catch::Contains(fmt::format("allowed for this model: up to {}", most)));
  CHECK_THAT(testing::thrown<ConfigError>([&] { return sent(static_cast<int>(most) + 1); }),
             Catch::Contains("64 bits"));
}

}  // namespace
}  // namespace zeroth::tools
