// SPDX-License-Identifier: Apache-2.0
#include "zeroth/simulate/machine.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::simulate {
namespace {

constexpr char const* good = R"({
  // a machine
  "peak_flops_per_s": 1e11, "math_efficiency": 0.9, "memory_bytes_per_s": 2e10, "ranks_per_node": 4,
  "node_bytes_per_s": 1e10, "network_bytes_per_s": 1e9, "communication_share": 1, "enqueue_us": 0.5, "kernel_us": 1,
  "ring": [{"start_us": 20, "step_us": 5}]
})";

std::string message_of(std::string const& text) {
  testing::Folder const folder;
  auto const file = folder.path() / "machine.json";
  std::ofstream{file} << text;
  try {
    static_cast<void>(machine_of(file.string()));
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("A machine is read from a file") {
  testing::Folder const folder;
  auto const file = folder.path() / "machine.json";
  std::ofstream{file} << good;
  auto const machine = machine_of(file.string());
  CHECK(machine.peak_flops_per_s == 1e11);
  CHECK(machine.ranks_per_node == 4);
  CHECK(machine.device_memory_bytes == 0);
  CHECK(machine.ring.size() == 1);
  CHECK(machine.ring[0].step_us == 5);
  CHECK(machine.ring[0].bandwidth_fraction == 1);
  CHECK(machine.tree.empty());
}

TEST_CASE("Presets have names") {
  for (auto const& name : machine_presets()) {
    auto const machine = machine_of(name);
    CHECK(machine.name == name);
    CHECK(machine.ranks_per_node == 8);
    CHECK(machine.peak_flops_per_s > 1e14);
  }
  CHECK_THROWS_WITH(machine_of("8xh10"), Catch::Contains("can be read; did you mean 8xH100?"));
  CHECK_THROWS_WITH(machine_of("8xB1"),
                    Catch::Contains("\"8xB1\" is neither a preset (8xA100, 8xH100, 8xH200) nor a file"));
}

// Figures of NVIDIA and of nccl-tests that the files cite. Assumptions of the files are not checked.
TEST_CASE("The presets have eight GPUs with an adapter each") {
  auto const h100 = machine_of("8xH100");
  auto const h200 = machine_of("8xH200");
  for (auto const& machine : {h100, h200}) {
    CHECK(machine.peak_flops_per_s == 989e12);
    CHECK(machine.fp32_peak_flops_per_s == 67e12);
    CHECK(machine.network_bytes_per_s == 8 * 47e9);
    CHECK(machine.ring.size() == 2);
    CHECK(machine.tree.size() == 1);
  }
  CHECK(h100.device_memory_bytes == std::int64_t{81'559} << 20U);
  CHECK(h200.device_memory_bytes == std::int64_t{143'771} << 20U);
  CHECK(h100.memory_bytes_per_s == 0.9 * 3.35e12);
  CHECK(h200.memory_bytes_per_s == 0.9 * 4.8e12);
  auto const a100 = machine_of("8xA100");
  CHECK(a100.peak_flops_per_s == 312e12);
  CHECK(a100.fp32_peak_flops_per_s == 19.5e12);
  CHECK(a100.network_bytes_per_s == 8 * 22.75e9);
  CHECK(a100.device_memory_bytes == std::int64_t{81'920} << 20U);
  CHECK(a100.memory_bytes_per_s == Approx(0.9 * 2.039e12).epsilon(1e-3));
}

TEST_CASE("A kind of code has the machine's rates except those that it sets") {
  auto file = nlohmann::json::parse(good, nullptr, true, true);
  file["activation_passes"] = 100;
  file["code"] = {{"eager", nlohmann::json::object()},
                  {"fused", {{"activation_passes", 40}, {"parameter_passes", 3}, {"attention_efficiency", 0.25}}}};
  testing::Folder const folder;
  auto const path = (folder.path() / "machine.json").string();
  std::ofstream{path} << file;
  auto const machine = machine_of(path);
  CHECK(machine.rates == CodeRates{.math_efficiency = 0.9, .activation_passes = 100});
  CHECK(machine.running("eager").rates == machine.rates);
  CHECK(
      machine.running("fused").rates ==
      CodeRates{.math_efficiency = 0.9, .attention_efficiency = 0.25, .activation_passes = 40, .parameter_passes = 3});
  CHECK_THROWS_WITH(machine.running("fast"), Catch::Contains("no kind of code \"fast\"; allowed: eager, fused"));
  Machine nameless;
  nameless.name = "x";
  CHECK_THROWS_WITH(nameless.running("fast"), Catch::Contains("machine \"x\" has no \"code\""));

  file["code"] = {{"eager", 3}, {"fused", {{"passes", 1}, {"math_efficiency", 2}}}};
  auto const message = message_of(file.dump());
  CHECK_THAT(message, Catch::Contains("code.eager (line 1): is 3; allowed: an object"));
  CHECK_THAT(message, Catch::Contains("code.fused.math_efficiency (line 1): is 2; allowed: a number from 0.001 to 1"));
  CHECK_THAT(message, Catch::Contains("code.fused.passes (line 1): is not a key of a kind of code"));
}

TEST_CASE("A copy of a preset's file gives the same machine") {
  for (auto const& name : machine_presets()) {
    CHECK(machine_of(std::string{ZEROTH_SOURCE_DIR "/configs/machines/"} + name + ".json") == machine_of(name));
  }
}

TEST_CASE("A missing required key is an error") {
  auto const full = nlohmann::json::parse(good, nullptr, true, true);
  REQUIRE(full.size() == 10);
  for (auto const& [key, value] : full.items()) {
    auto without = full;
    without.erase(key);
    CHECK_THAT(message_of(without.dump()), Catch::EndsWith("machine.json: 1 problem\n  " + key + ": is required"));
  }
  for (auto const* const key : {"start_us", "step_us"}) {
    auto without = full;
    without["ring"][0].erase(key);
    CHECK_THAT(message_of(without.dump()),
               Catch::EndsWith(std::string{"1 problem\n  ring[0]."} + key + ": is required"));
  }
}

TEST_CASE("Every key rejects invalid values with what is allowed") {
  struct Wrong {
    char const *key, *value, *allowed;
  };
  constexpr auto flops = "a number from 1e+06 to 1e+21";
  constexpr auto bandwidth = "a number from 1e+06 to 1e+18";
  constexpr auto time = "a number from 0 to 1e+06";
  Wrong const wrongs[] = {
      {"name", "3", "a string"},
      {"peak_flops_per_s", "0", flops},
      {"peak_flops_per_s", "1e+22", flops},
      {"fp32_peak_flops_per_s", "0", flops},
      {"math_efficiency", "1.01", "a number from 0.001 to 1"},
      {"memory_bytes_per_s", "null", bandwidth},
      {"device_memory_bytes", "1.5", "a whole number from 0 to 1152921504606846976"},
      {"device_memory_bytes", "-1", "a whole number from 0 to 1152921504606846976"},
      {"ranks_per_node", "0", "a whole number from 1 to 1048576"},
      {"ranks_per_node", "3000000000", "a whole number from 1 to 1048576"},
      {"node_bytes_per_s", "\"fast\"", bandwidth},
      {"network_bytes_per_s", "[]", bandwidth},
      {"node_bytes_per_s", "3", bandwidth},
      {"host_bytes_per_s", "0", bandwidth},
      {"host_thread_bytes_per_s", "1e+19", bandwidth},
      {"host_memory_bytes_per_s", "0", bandwidth},
      {"kernel_us", "1e+308", time},
      {"ring", "[]", "a list of at least one protocol"},
      {"ring", "{}", "a list of at least one protocol"},
      {"tree", "3", "a list of protocols"},
      {"attention_efficiency", "0", "a number from 0.001 to 1"},
      {"activation_passes", "-1", "a number from 0 to 10000"},
      {"parameter_passes", "10001", "a number from 0 to 10000"},
      {"code", "[]", "an object with a member for each kind of code"},
      {"ordered_collectives", "0", "true or false"},
      {"straggler_per_doubling", "0.6", "a number from 0 to 0.5"},
      {"copy_engine_gathers", "1", "true or false"},
      {"communication_share", "-0.1", "a number from 0 to 1"},
      {"enqueue_us", "0", "a number from 0.001 to 1e+06"},
      {"kernel_us", "true", time},
  };
  auto const full = nlohmann::json::parse(good, nullptr, true, true);
  for (auto const& [key, value, allowed] : wrongs) {
    auto changed = full;
    changed[key] = nlohmann::json::parse(value);
    auto const expected =
        fmt::format("machine.json: 1 problem\n  {} (line 1): is {}; allowed: {}", key, value, allowed);
    CHECK_THAT(message_of(changed.dump()), Catch::EndsWith(expected));
  }
}

TEST_CASE("Every key of a protocol rejects invalid values with what is allowed") {
  struct Wrong {
    char const *list, *protocol, *problem;
  };
  Wrong const wrongs[] = {
      {"ring", R"({"start_us": -1, "step_us": 0})",
       "ring[0].start_us (line 1): is -1; allowed: a number from 0 to 1e+06"},
      {"tree", R"({"start_us": 0, "step_us": "x"})",
       R"(tree[0].step_us (line 1): is "x"; allowed: a number from 0 to 1e+06)"},
      {"tree", R"({"start_us": 0, "step_us": 0, "network_step_us": -2})",
       "tree[0].network_step_us (line 1): is -2; allowed: a number from 0 to 1e+06"},
      {"ring", R"({"start_us": 0, "step_us": 0, "bandwidth_fraction": 2})",
       "ring[0].bandwidth_fraction (line 1): is 2; allowed: a number from 0.001 to 1"},
      {"ring", R"({"start_us": 0, "step_us": 0, "step_uss": 2})",
       "ring[0].step_uss (line 1): is not a key of a protocol; did you mean step_us?"},
      {"ring", "7", "ring[0] (line 1): is 7; allowed: an object"},
  };
  auto const full = nlohmann::json::parse(good, nullptr, true, true);
  for (auto const& [list, protocol, problem] : wrongs) {
    auto changed = full;
    changed[list] = nlohmann::json::array({nlohmann::json::parse(protocol)});
    CHECK_THAT(message_of(changed.dump()), Catch::EndsWith(std::string{"machine.json: 1 problem\n  "} + problem));
  }
}

TEST_CASE("A file that does not describe a machine is rejected") {
  CHECK_THAT(message_of("{"), Catch::Contains("machine.json: 1 problem"));
  CHECK_THAT(message_of(""), Catch::Contains("machine.json: 1 problem"));
  CHECK_THROWS_WITH(machine_of("/tmp"),
                    Catch::Contains("\"/tmp\" is neither a preset (8xA100, 8xH100, 8xH200) nor a file"));
  CHECK_THROWS_WITH(machine_of(""), Catch::Contains("\"\" is neither a preset"));
}

TEST_CASE("All problems of a machine are reported at once") {
  auto const message = message_of(R"({
    "peak_flops_per_s": 0, "math_eficiency": 0.9, "memory_bytes_per_s": "fast", "ranks_per_node": 0,
    "node_bytes_per_s": 1e10, "network_bytes_per_s": 1e9, "communication_share": 1.5, "enqueue_us": -1, "kernel_us": 1,
    "ring": [{"start_us": 20}, 7]})");
  using Catch::Contains;
  CHECK_THAT(message, Contains("machine.json"));
  CHECK_THAT(message, Contains("peak_flops_per_s") && Contains("is 0; allowed: a number from 1e+06 to 1e+21"));
  CHECK_THAT(message, Contains("math_eficiency") && Contains("did you mean math_efficiency?"));
  CHECK_THAT(message, Contains("math_efficiency") && Contains("is required"));
  CHECK_THAT(message, Contains("is \"fast\"; allowed: a number"));
  CHECK_THAT(message, Contains("ranks_per_node") && Contains("is 0; allowed: a whole number from 1"));
  CHECK_THAT(message, Contains("is 1.5; allowed: a number from 0 to 1"));
  CHECK_THAT(message, Contains("enqueue_us") && Contains("is -1"));
  CHECK_THAT(message, Contains("ring[0].step_us") && Contains("ring[1]"));
  CHECK_THAT(message_of("[]"), Contains("machine.json"));
  CHECK_THAT(message_of(R"({"ring": []})"), Contains("ring") && Contains("a list of at least one protocol"));
}

}  // namespace zeroth::simulate
