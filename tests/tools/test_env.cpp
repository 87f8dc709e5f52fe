// SPDX-License-Identifier: Apache-2.0
/// `zeroth env`, `zeroth --version`, and suggestions for mistyped commands and options.
#include <nlohmann/json.hpp>

#include "program_support.hpp"
#include "zeroth/version.hpp"

namespace zeroth::testing {
namespace {

std::string const names[] = {"zeroth", "build",  "options", "system", "processor",  "instructions", "memory",
                             "gpus",   "driver", "nccl",    "mpi",    "transports", "launcher"};

TEST_CASE("zeroth env prints what a fault report needs, as text and as JSON") {
  auto const text = zeroth_tool("env");
  CHECK(text.status == 0);
  auto const json = zeroth_tool("env --json");
  REQUIRE(json.status == 0);
  auto const facts = nlohmann::json::parse(json.output);
  CHECK(facts.size() == std::size(names));
  for (auto const& name : names) {
    INFO(name << "\n" << text.output);
    CHECK_FALSE(facts.at(name).get<std::string>().empty());
    CHECK(contains("\n" + text.output, "\n" + name + " "));
  }
  CHECK(facts["zeroth"] == std::string{version});
  CHECK(contains(facts["processor"], "cores for this process, kernels for "));
  CHECK(contains(facts["memory"], "GiB left on this machine, of "));
  CHECK(contains(facts["options"], " library, "));
  CHECK(contains(facts["options"], " CUDA, with"));
  CHECK(contains(facts["gpus"], "compute capability") != contains(facts["gpus"], "none: "));
  CHECK(contains(facts["transports"], "local, tcp"));
  CHECK(facts["launcher"] == "none: ranks would be threads");
}

TEST_CASE("zeroth env names the launcher, and quotes variables that contradict each other") {
  auto const launcher = [](std::map<std::string, std::string> const& environment) {
    Child child{{.command = {ZEROTH_TOOL, "env", "--json"}, .folder = ZEROTH_SOURCE_DIR, .environment = environment}};
    REQUIRE(child.wait().status == 0);
    return nlohmann::json::parse(child.output())["launcher"].get<std::string>();
  };
  auto const torchrun = launcher({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}});
  CHECK(contains(torchrun, "torchrun"));
  CHECK(contains(torchrun, "RANK=1"));
  CHECK(contains(launcher({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), "RANK=4"));
}

TEST_CASE("zeroth --version prints version and build") {
  auto const result = zeroth_tool("--version");
  CHECK(result.status == 0);
  CHECK(result.output == "zeroth " + std::string{version} + "\n");
}

TEST_CASE("A mistyped command or option gets a suggestion") {
  check_refused("paln --model 124M", "paln: did you mean plan?");
  check_refused("checkpoint verfy saved", "verfy: did you mean verify?");
  check_refused("plan --modle 124M --ranks 4", "--modle: did you mean --model?");
  check_refused("simulate --model 124M --ranks 4 --recomput=1", "--recomput: did you mean --recompute?");
  auto const far = zeroth_tool("train --model 124M");
  CHECK(far.status == 2);
  CHECK_FALSE(contains(far.output, "did you mean"));
}

}  // namespace
}  // namespace zeroth::testing
