// SPDX-License-Identifier: Apache-2.0
/// Compares presets with published figures.
#include "presets.hpp"

#include <cmath>
#include <cstdlib>

#include "source_support.hpp"
#include "support/catch.hpp"

namespace zeroth::tools {
namespace {

/// Turns "7.5B" into 7.5e9.
double size_in_name(std::string const& name) {
  auto const unit = name.back() == 'M' ? 1e6 : name.back() == 'B' ? 1e9 : 1e12;
  return std::strtod(name.c_str(), nullptr) * unit;
}

SourcedModel preset(std::string const& name) { return read_model({.model = name}); }

TEST_CASE("GPT-2's presets have the parameters of GPT-2") {
  CHECK(count_of(preset("124M")) == 124'439'808);
  CHECK(count_of(preset("355M")) == 354'823'168);
  CHECK(count_of(preset("774M")) == 774'030'080);
  CHECK(count_of(preset("1.5B")) == 1'557'611'200);
}

TEST_CASE("Every preset has the size in its name") {
  CHECK(presets().size() == 14);
  for (auto const& each : presets()) {
    std::string const name{each.name};
    auto const source = preset(name);
    INFO(name << " has " << count_of(source));
    auto const wanted = size_in_name(name);
    CHECK(std::abs(static_cast<double>(count_of(source)) - wanted) < (each.name == "1.5B" ? 0.04 : 0.025) * wanted);
    CHECK(source.context == each.context);
    CHECK(each.channels % each.heads == 0);
    CHECK(std::ssize(source.model.description().units) == each.layers + 2);
    CHECK(source.facts.size() == source.model.description().units.size());
    CHECK(contains(source.about, std::string{each.source}));
  }
}

TEST_CASE("A preset's head is tied to the token embedding, which is stored once") {
  auto const source = preset("124M");
  auto const& description = source.model.description();
  CHECK(unit_names(source).front() == "transformer.embedding");
  CHECK(unit_names(source)[1] == "transformer.h.0");
  CHECK(unit_names(source).back() == "transformer.head");
  REQUIRE(description.units.back().ties.size() == 1);
  CHECK(description.params[description.units.back().ties[0]].name == "transformer.wte.weight");
}

TEST_CASE("Work is two operations for each matrix element and token, and attention by the context") {
  auto const source = preset("124M");
  CHECK(source.facts.front().forward_flops_per_token(1024) == 0);
  auto const block = 12.0 * 768 * 768;
  CHECK(source.facts[1].forward_flops_per_token(0) == 2 * block);
  CHECK(source.facts[1].recompute_flops_per_token(0) == 2 * (block - 4.0 * 768 * 768));
  CHECK(source.facts.back().recompute_flops_per_token(1024) == 0);
  CHECK(source.facts[1].forward_flops_per_token(1024) == 2 * block + 4.0 * 1024 * 768);
  CHECK(source.facts.back().forward_flops_per_token(1024) == 2.0 * 50257 * 768);
}

TEST_CASE("Presets are found in upper and lower case, and near names are suggested") {
  CHECK(find_preset("7.5b") == find_preset("7.5B"));
  CHECK(find_preset("7.5B") != nullptr);
  CHECK(find_preset("8B") == nullptr);
  CHECK(find_preset("") == nullptr);
  CHECK(presets_near("175").starts_with("did you mean 175B? presets: 124M, 355M, "));
  CHECK(presets_near("llama").starts_with("presets: 124M"));
}

}  // namespace
}  // namespace zeroth::tools
