#include "zeroth/simulate/machine.hpp"

#include <fstream>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
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
  testing::TemporaryFolder const folder;
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
  testing::TemporaryFolder const folder;
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
  CHECK_THROWS_WITH(machine_of("8xA1"), Catch::Contains("\"8xA1\" is neither a preset (8xH100, 8xH200) nor a file"));
}

TEST_CASE("Everything wrong with a machine is said at once") {
  auto const message = message_of(R"({
    "peak_flops_per_s": 0, "math_eficiency": 0.9, "memory_bytes_per_s": "fast", "ranks_per_node": 0,
    "node_bytes_per_s": 1e10, "network_bytes_per_s": 1e9, "communication_share": 1.5, "enqueue_us": -1, "kernel_us": 1,
    "ring": [{"start_us": 20}, 7]})");
  using Catch::Contains;
  CHECK_THAT(message, Contains("machine.json"));
  CHECK_THAT(message, Contains("peak_flops_per_s") && Contains("is 0; allowed: a number from 1e-06"));
  CHECK_THAT(message, Contains("math_eficiency") && Contains("did you mean math_efficiency?"));
  CHECK_THAT(message, Contains("math_efficiency") && Contains("is required"));
  CHECK_THAT(message, Contains("is \"fast\"; allowed: a number"));
  CHECK_THAT(message, Contains("ranks_per_node") && Contains("is 0; allowed: a whole number from 1"));
  CHECK_THAT(message, Contains("is 1.5; allowed: a number from 0 to 1"));
  CHECK_THAT(message, Contains("enqueue_us") && Contains("is -1"));
  CHECK_THAT(message, Contains("ring[0].step_us") && Contains("ring[1]"));
  CHECK_THAT(message_of("[]"), Contains("machine.json"));
  CHECK_THAT(message_of(R"({"ring": []})"), Contains("ring") && Contains("a list of one protocol or more"));
}

}  // namespace zeroth::simulate
