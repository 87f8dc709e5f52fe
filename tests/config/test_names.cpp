// SPDX-License-Identifier: Apache-2.0
/// Guesses of the name that was meant.
#include "config/foreign_keys.hpp"
#include "config/keys.hpp"
#include "config/names.hpp"
#include "support/catch.hpp"
#include "zeroth/tool/config/nearest.hpp"

namespace zeroth::config {
namespace {

TEST_CASE("Edits are counted") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("stage", "stage") == 0);
  CHECK(edit_distance("stage", "Stage") == 0);
  CHECK(edit_distance("stge", "stage") == 1);
  CHECK(edit_distance("staage", "stage") == 1);
  CHECK(edit_distance("stahe", "stage") == 1);
  CHECK(edit_distance("satge", "stage") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("flaw", "lawn") == 2);
  CHECK(edit_distance("ca", "abc") == 3);  // a swap is not edited again
}

TEST_CASE("One edit in any name suggests it or a name as near") {
  for (auto const& key : keys) {
    auto const dot = key.path.rfind('.');
    std::string const section{dot == std::string_view::npos ? "" : key.path.substr(0, dot)};
    std::string const name{key.path.substr(dot + 1)};
    for (std::size_t i = 0; i < name.size(); ++i) {
      auto shorter = name;
      shorter.erase(i, 1);
      auto replaced = name;
      replaced[i] = '~';
      for (auto const& typed : {shorter, replaced}) {
        auto const found = nearest_path(section, typed);
        INFO(section << " . " << typed << " -> " << found);
        CHECK_FALSE(found.empty());
        CHECK(edit_distance(found.substr(found.rfind('.') + 1), typed) <= 1);
      }
    }
  }
}

TEST_CASE("A name of another section is suggested with that section") {
  CHECK(nearest_path("", "stage") == "zero_optimization.stage");
  CHECK(nearest_path("zero_optimization", "loss_scale") == "fp16.loss_scale");
  CHECK(nearest_path("optimizer", "betas") == "optimizer.params.betas");
  CHECK(nearest_path("", "qwertyuiop") == "");
  CHECK(nearest_path("", std::string(100'000, 'x')) == "");
}

TEST_CASE("Sections are recognised by the keys in them") {
  for (auto const* const section : {"", "zero_optimization", "optimizer", "optimizer.params", "scheduler.params",
                                    "fp16", "bf16", "data_types", "zeroth", "activation_checkpointing"}) {
    CHECK(is_section(section));
  }
  for (auto const* const path : {"zero", "zero_optimization.stage", "zeroth.", "optimizer.param", "."}) {
    CHECK_FALSE(is_section(path));
  }
  CHECK(names_in("fp16").front() == "enabled");
  CHECK(names_in("hybrid_engine").empty());
}

TEST_CASE("No path of a key has two meanings") {
  for (auto const& key : foreign_keys()) {
    INFO(key.path);
    CHECK_FALSE(find_key(key.path).has_value());
    CHECK_FALSE(is_section(key.path));
    CHECK(find_foreign_key(key.path) == &key);
  }
  for (auto const& alias : aliases) {
    INFO(alias.written);
    std::string const path{alias.path};
    CHECK((find_key(path).has_value() || find_foreign_key(path) != nullptr || is_section(path)));
    CHECK_FALSE(find_key(alias.written).has_value());
    CHECK(find_foreign_key(alias.written) == nullptr);
  }
}

}  // namespace
}  // namespace zeroth::config
