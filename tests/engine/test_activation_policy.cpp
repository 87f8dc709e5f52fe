// SPDX-License-Identifier: Apache-2.0
/// Which units of a model a stage file recomputes and offloads.
#include <fmt/format.h>

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/activations.hpp"

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
  CHECK(of(R"("units": "all", "offload": "cpu")") == "roooo");
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

}  // namespace zeroth
