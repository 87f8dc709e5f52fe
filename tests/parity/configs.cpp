// SPDX-License-Identifier: Apache-2.0
/// The stage files in configs/ and in documents: each trains at every stage, and the same at each.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "pipeline.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "tensor.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

std::filesystem::path const root = ZEROTH_SOURCE_DIR;

Config at_stage(Config const& config, int stage) {
  return config.with(fmt::format(R"({{"zero_optimization": {{"stage": {}}}}})", stage));
}

/// Trains at stages 0 to 3.
std::vector<Trained> at_all_stages(Config const& config, int world) {
  std::vector<Trained> results;
  for (int stage = 0; stage <= 3; ++stage) {
    results.push_back(train(world, at_stage(config, stage)));
    auto const& reports = results.back().reports;
    REQUIRE(reports.size() == 4);
    REQUIRE(std::ranges::any_of(reports, [](StepReport const& report) { return !report.skipped; }));
  }
  return results;
}

/// The stage file in README.md.
Config shown() {
  std::ifstream file{root / "README.md"};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  std::string const opening = "\n```jsonc\n";
  auto const begin = text.find(opening);
  REQUIRE(begin != std::string::npos);
  return Config::from_json(text.substr(begin + opening.size(), text.find("\n```", begin + 1) - begin - opening.size()));
}

}  // namespace

TEST_CASE("every file of configs/ and the README's trains the same at every stage") {
  std::vector<std::pair<std::string, Config>> files{{"README.md", shown()}};
  for (auto const& entry : std::filesystem::directory_iterator{root / "configs"}) {
    if (!entry.is_regular_file()) {
      continue;
    }
    auto const config = Config::from_file(entry.path());
    bool const needs_matrices = config.settings(1, 1).matrix_update.has_value();
    if (config.pipeline().stages * config.tensor_ranks() == 1 && !needs_matrices) {
      files.emplace_back(entry.path().filename().string(), config);
    }
  }
  REQUIRE(files.size() >= 9);
  for (auto const& [name, config] : files) {
    for (int const world : {1, 2}) {
      auto const settings = config.settings(world, 1);
      INFO(name << " on " << world);
      // Otherwise the stage would decide how gradients are rounded.
      REQUIRE((settings.batch.accumulation == 1 || settings.reduce_gradients_given));
      auto const results = at_all_stages(config, world);
      for (auto const& result : results) {
        CHECK(bits_of(result) == bits_of(results.front()));
      }
    }
  }
}

namespace {

/// Trains a chain of layers with marked matrices. Requires that all ranks have the same results.
std::vector<std::uint32_t> bits_of_chain(Config const& file, int world, bool on_mesh) {
  std::vector<std::vector<std::uint32_t>> all(static_cast<std::size_t>(world));
  REQUIRE(messages_of(run_job(world, [&](Job& job) {
            all[static_cast<std::size_t>(job.rank())] = bits_of(train_chain(job, file, {}, on_mesh));
          })) == "");
  REQUIRE(std::ranges::count(all, all.front()) == world);
  return all.front();
}

}  // namespace

TEST_CASE("configs/zero1_muon.json trains the same at every stage") {
  auto const config = Config::from_file(root / "configs/zero1_muon.json");
  for (int const world : {1, 2}) {
    auto const base = bits_of_chain(config, world, false);
    for (int stage = 0; stage <= 3; ++stage) {
      INFO("stage " << stage << ", " << world << " ranks");
      CHECK(bits_of_chain(at_stage(config, stage), world, false) == base);
    }
  }
}

TEST_CASE("configs/pipeline.json trains the same with and without a mesh, at every ZeRO stage") {
  auto const config = Config::from_file(root / "configs/pipeline.json");
  auto const stages = config.pipeline().stages;
  REQUIRE(stages == 2);
  auto const& bits = bits_of_chain;
  for (int const world : {1, 2}) {
    auto const base = bits(at_stage(config, 0).with(R"({"zeroth": {"mesh": {"pipeline": 1}}})"), world, false);
    for (int stage = 0; stage <= 3; ++stage) {
      INFO("stage " << stage << ", " << world << " ranks a stage of the pipeline");
      CHECK(bits(at_stage(config, stage), world * stages, true) == base);
    }
  }
}

TEST_CASE("configs/3d.json trains the same on three axes as on two, at every ZeRO stage") {
  auto const config = Config::from_file(root / "configs/3d.json");
  REQUIRE(config.pipeline().stages == 2);
  REQUIRE(config.tensor_ranks() == 2);
  REQUIRE(config.sequence_parallel());
  auto const bits = [](Config const& file, int world) {
    std::vector<std::vector<std::uint32_t>> all(static_cast<std::size_t>(world));
    REQUIRE(messages_of(run_job(world, [&](Job& job) {
              all[static_cast<std::size_t>(job.rank())] = bits_of(train_divided(job, file, {.sequence = true}));
            })) == "");
    REQUIRE(std::ranges::count(all, all.front()) == world);
    return all.front();
  };
  auto const base = bits(at_stage(config, 0).with(R"({"zeroth": {"mesh": {"pipeline": 1}}})"), 4);
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    CHECK(bits(at_stage(config, stage), 8) == base);
  }
}

TEST_CASE("without zeroth.reduce_gradients a file trains at every stage, and stages that reduce alike are equal") {
  for (auto const* const batch :
       {R"("train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3)",
        R"("train_batch_size": 12, "train_micro_batch_size_per_gpu": 2)"}) {  // 3 micro-steps follow from the world
    auto const config = Config::from_json(
        fmt::format(R"({{{}, "bf16": {{"enabled": true}}, "data_types": {{"grad_accum_dtype": "fp32"}}}})", batch));
    auto const results = at_all_stages(config, 2);
    CHECK(bits_of(results[0]) == bits_of(results[1]));
    CHECK(bits_of(results[2]) == bits_of(results[3]));
    CHECK(bits_of(results[0]) != bits_of(results[2]));  // the plan and the log announce the difference
  }
}

}  // namespace zeroth::testing
