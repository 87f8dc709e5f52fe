// SPDX-License-Identifier: Apache-2.0
/// scripts/torch_schedules.py wrote torch_schedules.jsonl with torch 2.15.0: schedulers as a stage file has them, and
/// the rates that torch's own put into an optimizer.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "config/config_support.hpp"
#include "support/catch.hpp"
#include "zeroth/optim/learning_rate_schedule.hpp"

namespace zeroth {
namespace {

using Json = nlohmann::json;

optim::LearningRateSchedule schedule_of(Json const& scheduler, double lr) {
  Json file;
  file["train_batch_size"] = 8;
  file["optimizer"] = {{"type", "SGD"}, {"params", {{"lr", lr}}}};
  file["scheduler"] = scheduler;
  return Config::from_json(file.dump()).settings(1, 1000).rules.schedule;
}

TEST_CASE("Schedulers of torch.optim.lr_scheduler have its rates, at their defaults too") {
  std::ifstream file{testing::source_folder() / "tests/config/torch_schedules.jsonl"};
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(Json::parse(line)["torch"].get<std::string>().starts_with("2.15.0"));
  std::map<std::string, int> checked;
  while (std::getline(file, line)) {
    auto const expected = Json::parse(line);
    auto const schedule = schedule_of(expected["scheduler"], expected["lr"].get<double>());
    INFO(expected["scheduler"].dump());
    std::int64_t applied = 0;
    for (auto const& rate : expected["rates"]) {
      INFO("after " << applied << " updates");
      // The optimizer's rate and the result are fp32 here, and fp64 there.
      CHECK(static_cast<double>(learning_rate(schedule, applied++)) ==
            Approx(rate.get<double>()).epsilon(2e-7).margin(1e-12));
    }
    CHECK(applied == 40);
    ++checked[expected["scheduler"]["type"].get<std::string>()];
  }
  CHECK(checked == std::map<std::string, int>{{"ConstantLR", 7},
                                              {"LinearLR", 7},
                                              {"CosineAnnealingLR", 6},
                                              {"StepLR", 6},
                                              {"MultiStepLR", 6},
                                              {"ExponentialLR", 6}});
}

TEST_CASE("Long schedules are as exact as fp32") {
  auto const exponential = schedule_of({{"type", "ExponentialLR"}, {"params", {{"gamma", 0.99999}}}}, 0.5);
  CHECK(static_cast<double>(learning_rate(exponential, 1'000'000)) ==
        Approx(0.5 * std::pow(0.99999, 1'000'000)).epsilon(2e-7));
  auto const cosine = schedule_of({{"type", "CosineAnnealingLR"}, {"params", {{"T_max", 2'000'000'000}}}}, 0.5);
  CHECK(learning_rate(cosine, 1'000'000'000) == 0.25F);
  CHECK(learning_rate(cosine, 2'000'000'000) == 0);
  CHECK(learning_rate(cosine, 4'000'000'000) == 0.5F);
  CHECK(learning_rate(cosine, 6'000'000'000) == 0);
}

}  // namespace
}  // namespace zeroth
