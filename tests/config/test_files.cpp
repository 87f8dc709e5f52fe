// SPDX-License-Identifier: Apache-2.0
/// The files of configs/.
#include <algorithm>
#include <set>
#include <vector>

#include "config/config_support.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

std::filesystem::path config_file(std::string const& name) { return testing::source_folder() / "configs" / name; }

TEST_CASE("Every file of configs/ loads for one to four ranks") {
  std::set<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator{testing::source_folder() / "configs"}) {
    if (!entry.is_regular_file()) {
      continue;  // machines/
    }
    INFO(entry.path());
    names.insert(entry.path().filename().string());
    auto const config = Config::from_file(entry.path());
    for (int world = 1; world <= 4; ++world) {
      auto const batch = config.settings(world, 1'000'000).batch;
      CHECK(batch.train == batch.micro * batch.accumulation * world);
    }
  }
  std::set<std::string> const needed = {"zero0.json",
                                        "zero1.json",
                                        "zero2.json",
                                        "zero3.json",
                                        "zero2_fp16.json",
                                        "zero3_bf16.json",
                                        "zero3_bf16_masters.json",
                                        "zero3_any_ranks.json",
                                        "zero3_zeropp.json",
                                        "zero1_muon.json",
                                        "zero2_accumulation.json",
                                        "pipeline.json",
                                        "3d.json"};
  CHECK(std::ranges::includes(names, needed));
}

TEST_CASE("The stage files differ only in the stage") {
  auto const values = [](int stage) {
    auto printed = testing::printed(Config::from_file(config_file(fmt::format("zero{}.json", stage))));
    for (auto const* const path :
         {"zero_optimization.stage", "zeroth.reduce_gradients", "zero_optimization.stage3_prefetch_bucket_size",
          "zero_optimization.stage3_max_live_parameters"}) {
      CHECK(printed.erase(path) == 1);
    }
    return printed;
  };
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(Config::from_file(config_file(fmt::format("zero{}.json", stage))).settings(2, 1).stage == stage);
    CHECK(values(stage) == values(0));
  }
}

TEST_CASE("The files for 16 bits and for accumulation set what their names say") {
  auto const fp16 = Config::from_file(config_file("zero2_fp16.json")).settings(2, 1);
  CHECK(fp16.precision.compute == Dtype::fp16);
  CHECK(fp16.rules.loss_scale.dynamic);
  auto const bf16 = Config::from_file(config_file("zero3_bf16.json")).settings(2, 1);
  CHECK(bf16.precision.compute == Dtype::bf16);
  CHECK(bf16.precision.master == Dtype::fp32);
  auto const masters = Config::from_file(config_file("zero3_bf16_masters.json")).settings(2, 1);
  CHECK(masters.precision.master == Dtype::bf16);
  CHECK(masters.precision.states == Dtype::bf16);
  auto const any_ranks = Config::from_file(config_file("zero3_any_ranks.json")).settings(2, 1);
  CHECK(any_ranks.same_bits_at_any_ranks);
  CHECK(any_ranks.replay_every == 100);
  auto const accumulation = Config::from_file(config_file("zero2_accumulation.json")).settings(2, 1);
  CHECK(accumulation.batch.accumulation > 1);
  CHECK(accumulation.precision.accumulate == Dtype::fp32);
}

}  // namespace
}  // namespace zeroth
