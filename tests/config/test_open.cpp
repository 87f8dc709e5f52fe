// SPDX-License-Identifier: Apache-2.0
/// Values that a file leaves to the program, and the ways to give them.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "config/config_support.hpp"
#include "support/catch.hpp"
#include "zeroth/tool/config/assignments.hpp"

namespace zeroth {
namespace {

using Json = nlohmann::json;

/// Like Hugging Face's examples: everything that the Trainer knows is "auto".
char const* const all_auto = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "fp16": {"enabled": "auto", "loss_scale": 0, "min_loss_scale": 1}, "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                "warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}
})";
char const* const values = R"({
  "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3, "bf16": {"enabled": true},
  "optimizer": {"params": {"lr": 3e-5, "weight_decay": 0.5}},
  "scheduler": {"params": {"warmup_num_steps": 10, "total_num_steps": 100}},
  "zero_optimization": {"stage": 1}
})";

std::vector<std::string> open_paths(Config const& config) {
  std::vector<std::string> paths;
  for (auto const& open : config.open()) {
    paths.push_back(open.path);
  }
  return paths;
}

Config given(std::string const& file, std::string const& text) {
  ConfigInputs inputs;
  inputs.given = text;
  return Config::from_json(file, inputs);
}
Config stated(std::string const& file, std::string const& text) {
  ConfigInputs inputs;
  inputs.stated = text;
  return Config::from_json(file, inputs);
}
std::string refusal(std::string const& file, std::string const& text) {
  try {
    static_cast<void>(stated(file, text));
    return {};
  } catch (ConfigError const& error) {
    return error.what();
  }
}

TEST_CASE("A value that is given although the file does not leave it open is noted") {
  auto const config = given(R"({
    "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.5, "weight_decay": "auto"}}})",
                            R"({"train_batch_size": 8, "bf16": {"enabled": true},
    "optimizer": {"params": {"lr": 0.25, "weight_decay": 0.125}}})");
  std::vector<std::string> notes;
  for (auto const& note : config.notes()) {
    notes.push_back(fmt::format("{} {}: {}", note.line, note.path, note.text));
  }
  CHECK(notes == std::vector<std::string>{"0 bf16.enabled: true from <given> is ignored: the file leaves it at false",
                                          "3 optimizer.params.lr: 0.25 from <given> is ignored: the file says 0.5"});
}

TEST_CASE("Open values of a file are listed, and get no default") {
  auto const config = Config::from_json(all_auto);
  CHECK(open_paths(config) == std::vector<std::string>{"train_micro_batch_size_per_gpu", "fp16.enabled", "bf16.enabled",
                                                       "optimizer.params.lr", "scheduler.params.warmup_num_steps",
                                                       "scheduler.params.total_num_steps"});
  auto const printed = testing::printed(config);
  CHECK(printed["optimizer.params.lr"]["value"].is_null());
  CHECK(printed["optimizer.params.lr"]["origin"] == "open: the file leaves it to the program");
  CHECK_THROWS_MATCHES(
      config.settings(2, 1), ConfigError,
      Catch::Message("<text>: 6 required values are not set\n"
                     "  train_micro_batch_size_per_gpu (line 2, \"auto\"): an integer from 1 to 2147483647; or give "
                     "train_batch_size\n"
                     "  fp16.enabled (line 4, \"auto\"): true or false\n"
                     "  bf16.enabled (line 4, \"auto\"): true or false\n"
                     "  optimizer.params.lr (line 5, \"auto\"): a number of at least 0\n"
                     "  scheduler.params.warmup_num_steps (line 7, \"auto\"): an integer of at least 1\n"
                     "  scheduler.params.total_num_steps (line 7, \"auto\"): an integer of at least 1"));
  CHECK_THROWS_AS(config.compute_dtype(), ConfigError);
  CHECK_THROWS_AS(config.gradient_dtype(), ConfigError);
  CHECK_THROWS_AS(config.expect_complete(), ConfigError);
}

TEST_CASE("Given values fill open keys, and are ignored for others") {
  auto const config = given(all_auto, values);
  CHECK(config.open().empty());
  auto const settings = config.settings(4, 1);
  CHECK(settings.stage == 3);  // the file says so
  CHECK(settings.batch.micro == 2);
  CHECK(settings.batch.accumulation == 3);
  CHECK(settings.batch.train == 24);
  CHECK(settings.precision.compute == Dtype::bf16);
  CHECK(settings.rules.schedule.base == 3e-5F);
  CHECK(settings.rules.schedule.warmup_max == 3e-5F);  // "auto" is the optimizer's rate
  CHECK(settings.rules.schedule.warmup_steps == 10);
  CHECK(settings.rules.schedule.total_steps == 100);
  CHECK(std::get<optim::Adam>(settings.update.rule).weight_decay == 0.5F);
  auto const printed = testing::printed(config);
  CHECK(printed["optimizer.params.lr"]["origin"] == "given");
  CHECK(printed["zero_optimization.stage"]["origin"] == "file");
  CHECK(config.with(R"({"zero_optimization": {"stage": 2}})").settings(1, 1).batch.micro == 2);  // stays given
}

TEST_CASE("The list of open values has exactly those that must be given") {
  auto const without = [](std::string const& pointer) {
    auto fewer = Json::parse(values);
    fewer = fewer.patch(Json::array({{{"op", "remove"}, {"path", pointer}}}));
    return open_paths(given(all_auto, fewer.dump()));
  };
  using Paths = std::vector<std::string>;
  CHECK(without("/train_micro_batch_size_per_gpu") == Paths{"train_micro_batch_size_per_gpu"});
  CHECK(without("/gradient_accumulation_steps").empty());  // 1, as in DeepSpeed
  CHECK(without("/bf16") == Paths{"fp16.enabled", "bf16.enabled"});
  CHECK(without("/optimizer/params/lr") == Paths{"optimizer.params.lr"});
  CHECK(without("/scheduler/params/warmup_num_steps") == Paths{"scheduler.params.warmup_num_steps"});
  CHECK(without("/scheduler/params/total_num_steps") == Paths{"scheduler.params.total_num_steps"});
}

TEST_CASE("Batch sizes may be absent, and a size that follows from two others is not open") {
  CHECK(open_paths(Config::from_json("{}")) == std::vector<std::string>{"train_micro_batch_size_per_gpu"});
  CHECK_THROWS_WITH(Config::from_json("{}").settings(1, 1),
                    "<text>: 1 required value is not set\n  train_micro_batch_size_per_gpu: an integer from 1 to "
                    "2147483647; or give train_batch_size");
  auto const batch = [](std::string const& file, std::string const& text) {
    auto const sizes = given(file, text).settings(2, 1).batch;
    return std::array{sizes.train, sizes.micro, sizes.accumulation};
  };
  auto const all =
      R"({"train_batch_size": 999, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3})";
  CHECK(batch("{}", all) == std::array<std::int64_t, 3>{12, 2, 3});
  CHECK(batch(R"({"train_batch_size": 64})", all) == std::array<std::int64_t, 3>{64, 2, 16});
  CHECK(batch(R"({"train_micro_batch_size_per_gpu": 5, "gradient_accumulation_steps": "auto"})", all) ==
        std::array<std::int64_t, 3>{30, 5, 3});
  CHECK(batch(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4})", all) ==
        std::array<std::int64_t, 3>{64, 8, 4});
  CHECK(batch("{}", R"({"train_batch_size": 64})") == std::array<std::int64_t, 3>{64, 32, 1});
}

TEST_CASE("If one of the two 16-bit dtypes is enabled, the other is not open") {
  auto const dtype = [](std::string const& members, std::string const& text) {
    return given(testing::file_with(members), text).compute_dtype();
  };
  auto const open = [](std::string const& members) {
    return open_paths(Config::from_json(testing::file_with(members)));
  };
  CHECK(dtype(R"("fp16": {"enabled": "auto"}, "bf16": {"enabled": true})", "") == Dtype::bf16);
  CHECK(dtype(R"("fp16": {"enabled": true}, "bf16": {"enabled": "auto"})", "") == Dtype::fp16);
  CHECK(dtype(R"("fp16": {"enabled": "auto"})", R"({"bf16": {"enabled": true}})") == Dtype::bf16);
  CHECK(dtype(R"("fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"})", R"({"fp16": {"enabled": true}})") ==
        Dtype::fp16);
  CHECK(dtype(R"("fp16": {"enabled": false})", R"({"bf16": {"enabled": true}})") == Dtype::fp32);  // neither is "auto"
  CHECK(open(R"("fp16": {"enabled": false}, "bf16": {"enabled": "auto"})") == std::vector<std::string>{"bf16.enabled"});
}

TEST_CASE("The program provides the optimizer if the file has none") {
  auto const text = R"({"optimizer": {"type": "SGD", "params": {"lr": 0.5}}})";
  auto const settings = given(testing::file_with(""), text).settings(1, 1);
  CHECK(std::holds_alternative<optim::Sgd>(settings.update.rule));
  CHECK(settings.rules.schedule.base == 0.5F);
  auto const other = given(testing::file_with(R"("optimizer": {"type": "Adam"})"), text).settings(1, 1);
  CHECK(std::holds_alternative<optim::Adam>(other.update.rule));
  CHECK(other.rules.schedule.base == 1e-3F);
}

TEST_CASE("Given values are checked, and wrong ones are rejected by name") {
  ConfigInputs inputs;
  inputs.given = R"({"optimizer": {"params": {"lrr": 1}}})";
  inputs.given_by = "values.json";
  CHECK_THROWS_WITH(Config::from_json(all_auto, inputs), Catch::StartsWith("values.json: 1 problem\n"));
  CHECK_THROWS_AS(given(all_auto, "[1]"), ConfigError);
  CHECK_THROWS_AS(given(all_auto, R"({"optimizer": {"params": {"lr": -1}}})"), ConfigError);
}

TEST_CASE("Values from the command line are used, and contradictions with the file are rejected") {
  auto const file = testing::file_with(R"("optimizer": {"type": "AdamW", "params": {"lr": 1e-3}})");
  auto const config = stated(file, R"({"optimizer": {"params": {"weight_decay": 0.25, "lr": 0.001}}})");
  CHECK(std::get<optim::Adam>(config.settings(1, 1).update.rule).weight_decay == 0.25F);
  CHECK(stated(file, R"({"bf16": {"enabled": true}, "fp16": {"enabled": false}})").compute_dtype() == Dtype::bf16);
  CHECK(refusal(file, R"({"optimizer": {"params": {"lr": 0.5}}})") ==
        "<text>: 1 problem\n  optimizer.params.lr (line 1): 0.001, but the command line says 0.5; change one of them");
  CHECK(refusal(file, R"({"scheduler": {"params": {"warmup_num_steps": 5}}})") ==
        "<text>: 1 problem\n  scheduler.params.warmup_num_steps: 5 from the command line does not apply: "
        "scheduler.type is null");
}

TEST_CASE("Assignments replace values of the file before it is checked") {
  std::vector<std::string> const assignments{"zero_optimization.stage=2", "optimizer.type=SGD",
                                             "zero_optimization.zero_hpz_partition_size=1",
                                             "zero_optimization.stage=3"};
  auto const changes = config::changes_from(assignments);
  CHECK(Json::parse(changes)["zero_optimization"]["stage"] == 3);
  ConfigInputs inputs;
  inputs.changes = changes;
  auto const config = Config::from_json(
      testing::file_with(R"("zero_optimization": {"stage": 1, "zero_hpz_partition_size": 8})"), inputs);
  CHECK(config.settings(1, 1).stage == 3);
  CHECK(testing::printed(config)["zero_optimization.stage"]["origin"] == "set");
  for (std::string const wrong : {"stage", "=1", "a..b=1", ".a=1", ""}) {
    INFO(wrong);
    CHECK_THROWS_AS(config::changes_from(std::vector{wrong}), ConfigError);
  }
  CHECK_THROWS_AS(config::changes_from(std::vector<std::string>{"a=1", "a.b=2"}), ConfigError);
}

}  // namespace
}  // namespace zeroth
