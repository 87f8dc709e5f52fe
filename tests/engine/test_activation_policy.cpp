// SPDX-License-Identifier: Apache-2.0
/// Which units of a model a stage file recomputes and offloads.
#include <fmt/format.h>

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/activations.hpp"
#include "zeroth/engine/plan.hpp"

namespace zeroth {
namespace {

struct Blocks {
  Model model;
  std::vector<Unit> units;

  Blocks() {
    for (auto const* const name : {"embedding", "transformer.h.0", "transformer.h.1", "transformer.h.2", "head"}) {
      units.push_back(model.unit(name));
    }
  }
  [[nodiscard]] ActivationPolicy policy(std::string const& keys) const {
    auto const file =
        fmt::format(R"({{"train_batch_size": 1, "zeroth": {{"activation_checkpointing": {{{}}}}}}})", keys);
    return {Config::from_json(file), model};
  }
  /// "kro": kept, recomputed, and recomputed with its input offloaded.
  [[nodiscard]] std::string letters(ActivationPolicy const& policy) const {
    std::string all;
    for (auto const unit : units) {
      CHECK(policy.keeps(unit) != policy.recomputes(unit));
      all += policy.offloads(unit) ? 'o' : policy.recomputes(unit) ? 'r' : 'k';
    }
    return all;
  }
};

}  // namespace

TEST_CASE("a policy knows what happens to each unit") {
  Blocks const blocks;
  auto const of = [&](char const* keys) { return blocks.letters(blocks.policy(keys)); };
  CHECK(of("") == "kkkkk");
  CHECK(of(R"("units": "none")") == "kkkkk");
  CHECK(of(R"("units": "all")") == "rrrrr");
  CHECK(of(R"("units": "every 2")") == "krkrk");
  CHECK(of(R"("units": "every 3")") == "kkrkk");
  CHECK(of(R"("units": "every 5")") == "kkkkr");
  CHECK(of(R"("units": "every 6")") == "kkkkk");
  CHECK(of(R"("units": ["transformer.h.2", "embedding", "embedding"])") == "rkkrk");
  CHECK(of(R"("units": "all", "offload": "cpu")") == "rooor");
  CHECK(of(R"("units": "every 2", "offload": "nvme", "nvme_path": "/nvme")") == "kokok");
  CHECK(blocks.letters({}) == "kkkkk");
  CHECK_FALSE(blocks.policy("").recomputes_any());
  CHECK(blocks.policy(R"("units": ["head"])").recomputes_any());
  CHECK(blocks.policy(R"("units": "all", "offload": "cpu")").offload() == ActivationOffload::cpu);
}

TEST_CASE("a name that is no unit is refused with the nearest one") {
  Blocks const blocks;
  auto const refused = [&](char const* name) {
    return testing::thrown<ConfigError>(
        [&] { return blocks.policy(fmt::format(R"("units": ["transformer.h.1", "{}"])", name)); });
  };
  CHECK_THAT(refused("tranformer.h.2"), Catch::Contains("zeroth.activation_checkpointing.units: \"tranformer.h.2\"") &&
                                            Catch::Contains("did you mean \"transformer.h.2\"?") &&
                                            Catch::Contains("names of its 5 units, \"embedding\" to \"head\""));
  CHECK_THAT(refused("h.0"), Catch::Contains("did you mean \"transformer.h.0\"?"));
  CHECK_THAT(refused("attention"), Catch::Contains("is no unit of the model; allowed"));
}

TEST_CASE("a policy rejects a unit of another model") {
  Blocks const blocks;
  Blocks const others;
  CHECK_THROWS_AS(blocks.policy(R"("units": "all")").recomputes(others.units[0]), ContractError);
}

TEST_CASE("a plan counts units that are recomputed, and the store of those that wait on a disk") {
  Model model;
  for (auto const* const name : {"a", "b", "c", "d", "e"}) {
    auto const unit = model.unit(name, {.input_per_sample = std::string_view{name} == "c" ? 3000 : 1300});
    static_cast<void>(model.param(unit, fmt::format("{}.w", name), {10}, Constant{1}));
  }
  auto const planned = [&](std::string const& keys, char const* more = "") {
    return plan(
               model,
               Config::from_json(fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3,
                  "zeroth": {{"activation_checkpointing": {{{}}}}} {}}})",
                                             keys, more)),
               2)
        .activations;
  };
  CHECK(planned("").recomputed == 0);
  CHECK(planned("").stored_bytes == 0);
  auto const in_memory = planned(R"("units": "every 2", "offload": "cpu")");
  CHECK(in_memory.recomputed == 2);
  CHECK(in_memory.offloaded == 0);
  auto const all = planned(R"("units": "all", "offload": "nvme", "nvme_path": "/nvme")");
  CHECK(all.recomputed == 5);
  CHECK(all.offloaded == 3);  // not the first one's, nor the last one's
  CHECK(all.input_bytes == 3000 * 2 * 4);
  CHECK(all.memory_bytes == 2 * 24576);
  CHECK(all.stored_bytes == 3 * 24576);
  CHECK(all.written_bytes == 3 * 3 * 24576);
  CHECK(all.read_bytes == 3 * 1 * 24576);
  auto const halves =
      planned(R"("units": ["b"], "offload": "nvme", "nvme_path": "/nvme")", R"(, "bf16": {"enabled": true})");
  CHECK(halves.input_bytes == 1300 * 2 * 2);
  CHECK(halves.read_bytes == 0);  // it is still in its slot
  auto const on_gpu =
      plan(model, Config::from_json(R"({"train_micro_batch_size_per_gpu": 2, "zeroth": {"activation_checkpointing":
                             {"units": "all", "offload": "cpu"}}})"),
           1, {.device = DeviceKind::cuda});
  CHECK(on_gpu.activations.offloaded == 3);
  CHECK(on_gpu.activations.stored_bytes == 3 * 24576);
  CHECK_THAT(explain_plan(on_gpu), Catch::Contains("the inputs of 3 wait in pinned memory of the host of 73728 B"));
  CHECK_THAT(
      explain_plan(plan(model, Config::from_json(R"({"train_batch_size": 1, "zeroth": {"activation_checkpointing":
                                 {"units": "all", "offload": "nvme", "nvme_path": "/nvme"}}})"),
                        1)),
      Catch::Contains("activations, which the program keeps: 5 of 5 units are recomputed; the inputs of 3 wait in "
                      "a file of 36864 B, with 24576 B of memory; a step writes 36864 B and reads 12288 B\n"));
}

}  // namespace zeroth
