// SPDX-License-Identifier: Apache-2.0
/// The program `zeroth plan`: command lines, exit codes, and its cost in time and memory.
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program_support.hpp"
#include "support/odd_streams.hpp"

namespace zeroth::testing {
namespace {

TEST_CASE("zeroth plan prints a table, or JSON") {
  auto const table = zeroth_tool("plan --model 7.5B --ranks 64 --device-memory 80");
  CHECK(table.status == 0);
  CHECK(contains(table.output, "GPT 7.5B: 7,467,786,240 parameters in 38 units"));
  CHECK(contains(table.output, "stage 3"));
  CHECK(contains(table.output, "left of 80.00"));

  auto const parsed = zeroth_tool("plan --parameters 7.5e9 --units 40 --ranks 64 --json --comm mpi");
  CHECK(parsed.status == 0);
  auto const json = nlohmann::json::parse(parsed.output);
  CHECK(json["ranks"] == 64);
  CHECK(json["model"]["parameters"] == 7'500'000'000);
  CHECK(json["model"]["units"] == 40);
  CHECK(json["config"].is_null());
  CHECK(json["stages"].size() == 4);
}

TEST_CASE("Staging for MPI's messages is planned") {
  auto const scratch = [](char const* comm) {
    auto const words = std::string{"plan --model 124M --ranks 4 --json --comm "} + comm;
    return nlohmann::json::parse(zeroth_tool(words).output)["stages"][3]["scratch"].get<std::int64_t>();
  };
  CHECK(scratch("mpi") > scratch("local"));
  CHECK(scratch("nccl") == scratch("local"));
  CHECK(scratch("tcp") == scratch("mpi"));
}

TEST_CASE("Every stage file in configs/ can be planned, and the plan marks its stage") {
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator{std::filesystem::path{ZEROTH_SOURCE_DIR} / "configs"}) {
    if (!entry.is_regular_file()) {
      continue;  // skips the folder machines/
    }
    ++files;
    auto const result =
        zeroth_tool("plan --model 124M --untied-head --ranks 8 --json --config " + entry.path().string());
    INFO(entry.path() << result.output);
    REQUIRE(result.status == 0);
    auto const json = nlohmann::json::parse(result.output);
    CHECK(json["config"] == entry.path().string());
    auto const name = entry.path().stem().string();
    bool const on_mesh = name == "pipeline" || name == "3d";
    CHECK(json.contains("pipeline") == on_mesh);
    CHECK((on_mesh || name.substr(0, 5) == "zero" + std::to_string(json["stage"].get<int>())));
  }
  CHECK(files >= 7);
}

TEST_CASE("Output that cannot be written is an error with its reason") {
  OddPipe closed;
  closed.read_no_more();
  struct Row {
    std::string where, reason;
  };
  Folder const folder;
  for (auto const& row : {Row{">/dev/full", "No space left on device"}, Row{">&-", "Bad file descriptor"},
                          Row{closed.takes(1), "Broken pipe"}}) {
    for (auto const* const command : {"plan", "--help"}) {
      Child::Options const options{.command = {ZEROTH_TOOL, command, "--model", "124M", "--ranks", "2"},
                                   .folder = folder.path(),
                                   .environment = {}};
      Child child{redirected(options, row.where)};
      auto const ending = child.wait();
      INFO(command << " " << row.where);
      CHECK(ending.status == 1);
      CHECK(child.output() == "zeroth: standard output: " + row.reason + "\n");
    }
  }
}

TEST_CASE("A plan that does not fit prints advice, and has its own exit status") {
  std::string const words = "plan --model 1T --ranks 64 --config configs/zero3_bf16.json";
  auto const result = zeroth_tool(words + " --device-memory 80");
  CHECK(result.status == 3);
  CHECK(contains(result.output, "Stage 3 does not fit into 80.00 GiB. What would change that:"));
  auto const json = zeroth_tool(words + " --device-memory 80 --json");
  CHECK(json.status == 3);
  CHECK(nlohmann::json::parse(json.output).contains("advice"));
  CHECK(zeroth_tool(words + " --device-memory 8000").status == 0);
  CHECK(zeroth_tool(words).status == 0);
}

TEST_CASE("Incomplete and contradictory command lines are rejected") {
  check_refused("", "A subcommand is required");
  check_refused("plam", "A subcommand is required");
  check_refused("plan --ranks 4", "Exactly 1 option from [--model,--parameters] is required");
  check_refused("plan --ranks 4 --model 124M --parameters 5", "is required and 2 were given");
  check_refused("plan --model 124M", "--ranks is required");
  check_refused("plan --model 124M --ranks 4 --units 3", "--units requires --parameters");
  check_refused("plan --model 124M --ranks 4 --comm gloo", "--comm: gloo not in {local,mpi,nccl,tcp}");
  check_refused("plan --model 124M --ranks 4 --jsom", "--jsom");
}

TEST_CASE("Numbers out of range are refused with what is allowed") {
  std::string const ranks = "allowed: a whole number from 1 to 1048576";
  for (std::string const wrong : {"0", "-3", "1.5", "many", "4x", "1e9", "nan", "1048577"}) {
    check_refused("plan --model 124M --ranks " + wrong, wrong + ": " + ranks);
  }
  for (std::string const wrong : {"0", "-1", "0.5", "1e16", "inf", "seven"}) {
    check_refused("plan --ranks 4 --parameters " + wrong,
                  wrong + ": allowed: a whole number from 1 to 1000000000000000");
  }
  check_refused("plan --ranks 4 --parameters 1e6 --units 0", "0: allowed: a whole number from 1 to 10000");
  for (std::string const wrong : {"0", "-80", "much", "1e7"}) {
    check_refused("plan --ranks 4 --model 124M --device-memory " + wrong,
                  wrong + ": allowed: a number above 0, up to 1e+06");
  }
}

TEST_CASE("Invalid models and files are rejected by name") {
  check_failed("plan --ranks 4 --model 7.4B",
               "--model 7.4B: there is no such file or folder, and no such preset; did you mean 7.5B?");
  check_failed("plan --ranks 4 --parameters 3 --units 4", "--units 4 for 3 parameters: allowed: from 1 to 3");
  check_failed("plan --ranks 4 --model 124M --config gone.json",
               "gone.json: 1 problem\n  cannot be opened: No such file or directory");

  Folder const folder;
  std::ofstream{folder.path() / "batch.json"} << R"({"train_batch_size": 64})";
  std::ofstream{folder.path() / "config.json"} << R"({"model_type": "gpt2", "n_embd": "wide"})";
  check_failed(
      "plan --ranks 3 --model 124M --config batch.json",
      "batch.json: 1 problem\n  train_batch_size (line 1): 64 is not a multiple of 3 (world size); nearest: 63 or 66; "
      "ranks that suit it: 1, 2, 4, 8",
      folder.path());
  check_failed("plan --ranks 3 --model config.json",
               "config.json: n_embd is \"wide\"; allowed: a whole number from 1 to 1000000000", folder.path());
}

TEST_CASE("Help is not an error, and names every option") {
  auto const help = zeroth_tool("plan --help");
  CHECK(help.status == 0);
  for (char const* option : {"--model", "--parameters", "--units", "--config", "--ranks", "--device-memory",
                             "--device ", "--comm", "--json"}) {
    CHECK(contains(help.output, option));
  }
}

TEST_CASE("Planning one trillion parameters on 1024 ranks needs less than a GiB of memory") {
  auto const result = zeroth_tool("plan --model 1T --ranks 1024 --json");
  REQUIRE(result.status == 0);
  CHECK(nlohmann::json::parse(result.output)["model"]["parameters"] == 1'008'038'758'400);
  rusage usage{};
  REQUIRE(getrusage(RUSAGE_CHILDREN, &usage) == 0);
  CHECK(usage.ru_maxrss > 1000);  // KiB, of the largest child so far
  CHECK(usage.ru_maxrss < 1024 * 1024);
}

TEST_CASE("Planning a thousand micro-steps gives the plan of three, with less than a GiB of memory") {
  Folder const folder;
  auto const sent = [&](int micro_steps) {
    std::ofstream{folder.path() / "stage.json"}
        << R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3},
               "gradient_accumulation_steps": )"
        << micro_steps << "}";
    auto const result = zeroth_tool("plan --model 1T --ranks 1024 --json --config stage.json", folder.path());
    REQUIRE(result.status == 0);
    std::vector<std::int64_t> bytes;
    auto const parsed = nlohmann::json::parse(result.output);
    for (auto const& stage : parsed["stages"]) {
      bytes.push_back(stage["bytes_sent_per_step"]);
    }
    return bytes;
  };
  auto const two = sent(2);
  auto const three = sent(3);
  auto const thousand = sent(1000);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    CHECK(thousand[stage] == two[stage] + 998 * (three[stage] - two[stage]));
    CHECK((thousand[stage] > 200 * three[stage]) == (stage >= 2));  // the other stages reduce once
  }
  rusage usage{};
  REQUIRE(getrusage(RUSAGE_CHILDREN, &usage) == 0);
  CHECK(usage.ru_maxrss < 1024 * 1024);
}

}  // namespace
}  // namespace zeroth::testing
