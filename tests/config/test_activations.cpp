// SPDX-License-Identifier: Apache-2.0
/// The file's settings for activations, by our keys and by DeepSpeed's.
#include <fmt/format.h>

#include "config/config_support.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

ActivationSettings activations_of(std::string const& members) {
  return Config::from_json(fmt::format("{{{}}}", members)).activation_checkpointing();
}

std::string ours(std::string const& keys) {
  return fmt::format(R"("zeroth": {{"activation_checkpointing": {{{}}}}})", keys);
}

}  // namespace

TEST_CASE("A file that says nothing about activations keeps all, in memory") {
  for (auto const& asked : {activations_of(""), activations_of(ours(R"("units": "none")")),
                            activations_of(ours(R"("units": "auto", "offload": "none")")),
                            activations_of(R"("activation_checkpointing": {"number_checkpoints": null})")}) {
    CHECK(asked.units == RecomputedUnits::none);
    CHECK(asked.every == 0);
    CHECK(asked.names.empty());
    CHECK(asked.offload == ActivationOffload::none);
    CHECK(asked.number_checkpoints == 0);
    CHECK_FALSE(asked.cpu_checkpointing);
  }
}

TEST_CASE("Every way to choose units is read") {
  CHECK(activations_of(ours(R"("units": "all")")).units == RecomputedUnits::all);
  auto const every = activations_of(ours(R"("units": "every 12")"));
  CHECK(every.units == RecomputedUnits::every);
  CHECK(every.every == 12);
  auto const listed = activations_of(ours(R"("units": ["h.0", "h.2"])"));
  CHECK(listed.units == RecomputedUnits::listed);
  CHECK(listed.names == std::vector<std::string>{"h.0", "h.2"});
  auto const disk = activations_of(ours(R"("units": "all", "offload": "nvme", "nvme_path": "/nvme")"));
  CHECK(disk.offload == ActivationOffload::nvme);
  CHECK(disk.nvme_path == "/nvme");
}

TEST_CASE("DeepSpeed's keys mean the same, and both words may agree") {
  auto const all = R"("activation_checkpointing": {"number_checkpoints": 4, "cpu_checkpointing": true})";
  for (auto const& members :
       {std::string{all}, fmt::format("{}, {}", all, ours(R"("units": "all", "offload": "cpu")"))}) {
    auto const asked = activations_of(members);
    CHECK(asked.units == RecomputedUnits::all);
    CHECK(asked.offload == ActivationOffload::cpu);
    CHECK(asked.number_checkpoints == 4);
    CHECK(asked.cpu_checkpointing);
  }
}

TEST_CASE("What a config prints about activations is read as the same") {
  for (auto const& members :
       {std::string{R"("activation_checkpointing": {"number_checkpoints": 4, "cpu_checkpointing": true})"},
        std::string{R"("activation_checkpointing": {"cpu_checkpointing": true})"},
        ours(R"("units": ["h.0", "h.2"], "offload": "nvme", "nvme_path": "/nvme")"), ours(R"("units": "every 3")")}) {
    auto const config = Config::from_json(fmt::format("{{{}}}", members));
    auto const printed = nlohmann::json::parse(config.to_json());
    nlohmann::json file;
    for (auto const* const path :
         {"activation_checkpointing.number_checkpoints", "activation_checkpointing.cpu_checkpointing",
          "zeroth.activation_checkpointing.units", "zeroth.activation_checkpointing.offload",
          "zeroth.activation_checkpointing.nvme_path"}) {
      std::string pointer = fmt::format("/{}", path);
      std::ranges::replace(pointer, '.', '/');
      if (auto const& value = printed[path]["value"]; !value.is_null()) {
        file[nlohmann::json::json_pointer{pointer}] = value;
      }
    }
    INFO(file.dump());
    auto const before = config.activation_checkpointing();
    auto const after = Config::from_json(file.dump()).activation_checkpointing();
    CHECK(after.units == before.units);
    CHECK(after.every == before.every);
    CHECK(after.names == before.names);
    CHECK(after.offload == before.offload);
    CHECK(after.nvme_path == before.nvme_path);
    CHECK(after.number_checkpoints == before.number_checkpoints);
  }
}

}  // namespace zeroth
