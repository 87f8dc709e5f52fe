// SPDX-License-Identifier: Apache-2.0
/// The resolved configuration, printed and read back.
#include <fmt/format.h>

#include <sstream>

#include "config/config_support.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

/// {"a.b": {"value": 1, ...}} -> {"a": {"b": 1}}
nlohmann::json as_file(nlohmann::json const& printed) {
  nlohmann::json file = nlohmann::json::object();
  for (auto const& [path, entry] : printed.items()) {
    auto* place = &file;
    std::istringstream parts{path};
    for (std::string part; std::getline(parts, part, '.');) {
      place = &(*place)[part];
    }
    *place = entry["value"];
  }
  return file;
}

auto as_tuple(Settings const& s) {
  auto const& a = std::get<optim::Adam>(s.update.rule);
  auto const& c = s.rules.schedule;
  auto const& l = s.rules.loss_scale;
  return std::make_tuple(
      std::make_tuple(s.stage, s.batch.train, s.batch.micro, s.batch.accumulation, s.precision.compute,
                      s.precision.gradient, s.precision.reduce, s.precision.accumulate, s.reduce_gradients),
      std::make_tuple(s.reduce_bucket_count, s.prefetch_count, s.max_live_count, s.gradient_slots, s.overlap_comm,
                      s.timeout, s.check, s.poison, s.flight_recorder, s.rules.clip, s.rules.skip_nonfinite),
      std::make_tuple(a.beta1, a.beta2, a.epsilon, a.weight_decay, a.decoupled_decay, a.bias_correction),
      std::make_tuple(c.kind, c.warmup, c.base, c.warmup_min, c.warmup_max, c.warmup_steps, c.total_steps,
                      c.warmup_min_ratio, c.cosine_min_ratio),
      std::make_tuple(l.dynamic, l.initial, l.minimum, l.window, l.hysteresis, l.consecutive_hysteresis));
}

TEST_CASE("Settings printed as JSON read back as the same settings") {
  std::string const bf16 = R"("bf16": {"enabled": true})";
  for (auto const& members : {
           std::string{},
           std::string{R"("zero_optimization": {"stage": 3, "reduce_bucket_size": 1e6})"},
           std::string{
               R"("fp16": {"enabled": true, "loss_scale": 0.1}, "zeroth": {"flight_recorder": "a \"b\" \u00e9"})"},
           bf16 + R"(, "gradient_accumulation_steps": 2, "communication_data_type": "fp32")",
           bf16 + R"(, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2})",
           std::string{R"("scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 7}})"},
           std::string{R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1e4}})"},
           std::string{R"("scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 1e4}})"},
           std::string{R"("optimizer": {"type": "Adam", "params": {"lr": 3.14159e-5, "adam_w_mode": false}})"},
       }) {
    INFO(members);
    auto const config = Config::from_json(testing::file_with(members));
    auto const file = as_file(testing::printed(config));
    INFO(file.dump());
    auto const again = Config::from_json(file.dump());
    for (int const world : {1, 2, 4}) {
      CHECK(as_tuple(again.settings(world, 1000)) == as_tuple(config.settings(world, 1000)));
    }
    // From now on the file is the source of every value that is set.
    auto const values = testing::printed(again);  // items() refers to it
    for (auto const& [path, entry] : values.items()) {
      INFO(path);
      CHECK((entry["origin"].get<std::string>() == "file") == !entry["value"].is_null());
    }
  }
}

TEST_CASE("Every value is printed with its origin") {
  auto const printed = testing::printed(Config::from_json(R"({
    "train_batch_size": 8, "gradient_clipping": "auto",
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": 5e7}})"));
  auto const entry = [&](char const* path) {
    return printed.at(path).at("value").dump() + " " + printed.at(path).at("origin").get<std::string>();
  };
  CHECK(entry("train_batch_size") == "8 file");
  CHECK(entry("train_micro_batch_size_per_gpu") ==
        "null derived: train batch / (accumulation x world), given the world size");
  CHECK(entry("gradient_accumulation_steps") ==
        "1 derived: train batch / (micro-batch x world) if both are given, else 1");
  CHECK(entry("gradient_clipping") == "1.0 derived: 0 for OneBitAdam, else 1 (the file says \"auto\")");
  CHECK(entry("zero_optimization.reduce_bucket_size") == "null derived: \"auto\", the elements of the largest unit");
  CHECK(entry("zero_optimization.stage3_prefetch_bucket_size") == "50000000 file");
  CHECK(entry("zero_optimization.overlap_comm") == "false derived: true at stage 3 only");
  CHECK(entry("fp16.enabled") == "false default");
  CHECK_FALSE(printed.contains("scheduler.params.warmup_num_steps"));  // no scheduler
}

TEST_CASE("The table for people has a line per key, aligned") {
  auto const config =
      Config::from_json(testing::file_with(R"("scheduler": {"type": "WarmupLR"}, "zero_optimization": {"stage": 1})"));
  std::istringstream table{config.to_string()};
  std::size_t lines = 0;
  std::size_t column = 0;
  for (std::string line; std::getline(table, line); ++lines) {
    auto const equals = line.find(" = ");
    column = lines == 0 ? equals : column;
    CHECK(equals == column);
    CHECK(line.back() == ')');
  }
  CHECK(lines == testing::printed(config).size());
  auto const text = config.to_string();
  INFO(text);
  auto const has_line = [&](char const* path, char const* value, char const* origin) {
    return text.find(fmt::format("\n{:<{}} = {:<20} ({})\n", path, column, value, origin)) != std::string::npos;
  };
  CHECK(has_line("zero_optimization.stage", "1", "file"));
  CHECK(has_line("train_micro_batch_size_per_gpu", "?",
                 "derived: train batch / (accumulation x world), given the world size"));
  CHECK(has_line("scheduler.params.warmup_num_steps", "1000", "default"));
}

}  // namespace
}  // namespace zeroth
