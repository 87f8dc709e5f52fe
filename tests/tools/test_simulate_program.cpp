// SPDX-License-Identifier: Apache-2.0
/// The program `zeroth simulate`: command lines, exit codes, its trace, and its cost in time and memory.
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "program_support.hpp"
#include "support/sanitized.hpp"

namespace zeroth::testing {
namespace {

using nlohmann::json;

json simulated(std::string const& options) {
  auto const result = zeroth_tool("simulate --json " + options);
  INFO(result.output);
  REQUIRE(result.status == 0);
  return json::parse(result.output);
}

TEST_CASE("zeroth simulate prints a table and a picture, or JSON") {
  auto const result = zeroth_tool("simulate --model 7.5B --ranks 64");
  CHECK(result.status == 0);
  CHECK(contains(result.output, "GPT 7.5B: 7,467,786,240 parameters in 38 units"));
  CHECK(contains(result.output,
                 "no stage file: stage 3 in bf16, overlap\n64 ranks on 8xH100, 8 per node\nmath at 68 % of"));
  CHECK(contains(result.output, "131,072 tokens a step: 64 ranks x 1 micro-step x 1 sample x 2,048 tokens\n"));
  CHECK(contains(result.output, "\n compute |"));

  auto const parsed = simulated("--parameters 7.5e9 --units 40 --ranks 64 --context 2048 --machine 8xH200");
  CHECK(parsed["machine"] == "8xH200");
  CHECK(parsed["model"]["parameters"] == 7'500'000'000);
  CHECK(parsed["config"].is_null());
  CHECK(parsed["stages"].size() == 4);
}

TEST_CASE("Without a file, a plan and a simulation are for the same job") {
  for (std::string const job : {"--model 7.5B --ranks 64", "--parameters 1e9 --units 10 --ranks 3 --context 128"}) {
    auto const simulation = simulated(job);
    auto const planned = zeroth_tool("plan --json " + job.substr(0, job.find(" --context")));
    REQUIRE(planned.status == 0);
    auto const plan = json::parse(planned.output);
    CHECK(plan["stage"] == simulation["stage"]);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      INFO(job << ", stage " << stage);
      CHECK(plan["stages"][stage]["total"] == simulation["stages"][stage]["total"]);
      CHECK(plan["stages"][stage]["bytes_sent_per_step"] == simulation["stages"][stage]["bytes_sent_per_step"]);
    }
  }
}

TEST_CASE("zeroth simulate takes stage files, machines from files, and models from files") {
  Folder const folder;
  std::ofstream{folder.path() / "config.json"}
      << R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "max_position_embeddings": 256,
             "num_attention_heads": 8, "num_hidden_layers": 4, "num_key_value_heads": 8, "vocab_size": 1000})";
  auto const of = [&](char const* config, char const* machine) {
    return simulated(std::string{"--ranks 16 --model "} + folder.path().string() + " --config configs/" + config +
                     " --machine " + machine);
  };
  auto const preset = of("zero2_accumulation.json", "8xH100");
  CHECK(preset["stage"] == 2);
  CHECK(preset["config"] == "configs/zero2_accumulation.json");
  CHECK(preset["context"] == 256);
  CHECK(of("zero2_accumulation.json", "configs/machines/8xH100.json") == preset);
  CHECK(of("zero1.json", "8xH100")["stage"] == 1);
}

TEST_CASE("Invalid options of a simulation are rejected with what is allowed") {
  check_refused("simulate --ranks 4", "Exactly 1 option from [--model,--parameters] is required");
  check_refused("simulate --model 124M", "--ranks is required");
  check_refused("simulate --model 124M --ranks 0", "0: allowed: a whole number from 1 to 1048576");
  for (std::string const wrong : {"0", "-1", "1.5", "long", "1e9"}) {
    check_refused("simulate --model 124M --ranks 4 --context " + wrong,
                  wrong + ": allowed: a whole number from 1 to 16777216");
  }
  for (std::string const wrong : {"3", "3=", "=2", "=", "4=2", "-1=2", "1.5=2", "x=2", "1=0", "1=-2", "1=1e7", "1=nan",
                                  "1=inf", "1=2x", "1=two", "1=2=3"}) {
    check_refused("simulate --model 124M --ranks 4 --slow " + wrong,
                  "--slow: " + wrong + ": allowed: RANK=FACTOR, ranks 0 to 3, factors above 0, up to 1e+06");
  }
  check_refused("simulate --model 124M --ranks 4 --slow 1=2 --slow 1=3", "--slow: 1=3: rank 1 was given before");
  check_refused("simulate --model 124M --ranks 65 --all-ranks",
                "--ranks: 65 with --all-ranks: allowed: at most 64, for each is simulated");
  check_refused("simulate --model 124M --ranks 65 --slow 64=2",
                "--ranks: 65 with --slow: allowed: at most 64, for each is simulated");
}

TEST_CASE("--permute tries all orders of a mesh's axes, and --slow accepts any tensor rank") {
  std::string const mesh = "--model 355M --untied-head --config configs/3d.json";
  auto const orders = simulated(mesh + " --ranks 32 --permute")["stages"];
  REQUIRE(orders.size() == 6);
  CHECK(orders[0]["nearness"][0] == "tensor");
  for (std::size_t i = 1; i < 6; ++i) {
    CHECK(orders[i]["step_ms"] >= orders[i - 1]["step_ms"]);
  }
  auto const on_one_node = simulated(mesh + " --ranks 8")["stages"][1]["step_ms"];
  auto const orders_on_one_node = simulated(mesh + " --ranks 8 --permute")["stages"];
  REQUIRE(orders_on_one_node.size() == 6);
  for (auto const& order : orders_on_one_node) {
    CHECK(order["step_ms"] == on_one_node);
  }
  check_refused("simulate --ranks 32 --permute --schedules " + mesh, "--schedules excludes --permute");
  check_failed(
      "simulate --ranks 30 --permute " + mesh,
      "configs/3d.json: zeroth.mesh.pipeline 2 times zeroth.mesh.tensor 2 is 4, which does not divide 30 ranks");
  check_failed("simulate --model 124M --ranks 8 --permute",
               "--permute: a mesh of 1 tensor, 8 data and 1 pipeline ranks");
  auto const slow_ms = [&](std::string const& slow) {
    return simulated(mesh + " --ranks 8" + slow)["stages"][1]["step_ms"].get<double>();
  };
  CHECK(slow_ms(" --slow 3=2") > 1.2 * slow_ms(""));
  CHECK(slow_ms(" --slow 3=2") == slow_ms(" --slow 2=2"));
}

TEST_CASE("Missing inputs of a simulation are named") {
  check_failed("simulate --parameters 1e9 --ranks 4",
               "--context is required: equal units does not say how long a sequence is");
  check_failed("simulate --model 124M --ranks 4 --machine 8xB200",
               "machine \"8xB200\" is neither a preset (8xA100, 8xH100, 8xH200) nor a file that can be read");
  check_failed("simulate --model 124M --ranks 4 --trace /nowhere/trace.json",
               "trace file /nowhere/trace.json: cannot be written: No such file or directory");
  Folder const folder;
  std::ofstream{folder.path() / "machine.json"} << R"({"peak_flops": 1e12})";
  check_failed("simulate --model 124M --ranks 4 --machine machine.json", "machine.json: ", folder.path());
  auto const result = zeroth_tool("simulate --model 124M --ranks 4 --machine machine.json", folder.path());
  CHECK(contains(result.output, "peak_flops (line 1): is not a key of a machine; did you mean peak_flops_per_s?"));
  CHECK(contains(result.output, "ring: is required"));
}

TEST_CASE("A trace is a file of spans of every stream, with waits, that lie within the step and side by side") {
  Folder const folder;
  auto const file = folder.path() / "trace.json";
  auto const words = "--model 1.5B --ranks 4 --slow 2=1.5 --trace " + file.string();
  auto const parsed = simulated(words);
  auto const step_us = 1e3 * parsed["stages"][3]["step_ms"].get<double>();
  auto const trace = json::parse(std::ifstream{file});
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  std::map<std::pair<int, std::string>, std::set<std::string>> kinds;  // by rank and stream
  std::map<std::pair<int, int>, double> ends;
  for (auto const& event : trace.at("traceEvents")) {
    int const pid = event.at("pid");
    int const tid = event.at("tid");
    if (event.at("ph") == "M") {
      auto const name = event.at("args").at("name").get<std::string>();
      event.at("name") == "process_name" ? processes[pid] = name : threads[{pid, tid}] = name;
      continue;
    }
    REQUIRE(event.at("ph") == "X");
    double const begin = event.at("ts");
    double const end = begin + event.at("dur").get<double>();
    CHECK(begin >= 0);
    CHECK(begin >= ends[{pid, tid}] - 1e-3);
    CHECK(end <= step_us + 1e-3);
    ends[{pid, tid}] = end;
    kinds[{pid, threads.at({pid, tid})}].insert(event.at("cat").get<std::string>());
  }
  CHECK(processes == std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}, {2, "rank 2"}, {3, "rank 3"}});
  for (int const rank : {0, 1, 2, 3}) {
    CHECK(kinds[{rank, "compute"}] == std::set<std::string>{"forward", "backward", "update", "wait"});
    CHECK(kinds[{rank, "gather"}] == std::set<std::string>{"gather", "wait"});
    CHECK(kinds[{rank, "reduce"}] == std::set<std::string>{"reduce", "decide", "wait"});
  }
}

TEST_CASE("--recompute and --slow make a step longer") {
  auto const step_ms = [](std::string const& more) {
    return simulated("--model 1.5B --ranks 4" + more)["stages"][3]["step_ms"].get<double>();
  };
  auto const plain = step_ms("");
  CHECK(step_ms(" --all-ranks") == Approx(plain));
  CHECK(step_ms(" --recompute") > 1.1 * plain);
  CHECK(step_ms(" --slow 0=3") > 2 * plain);
  CHECK(step_ms(" --slow 0=3 --slow 1=2") == Approx(step_ms(" --slow 0=3")).epsilon(0.01));
  CHECK(step_ms(" --slow 3=1") == Approx(plain));
}

TEST_CASE("A machine at the allowed limits gives finite times, or an error") {
  Folder const folder;
  auto const write = [&](char const* name, char const* flops, char const* bytes, char const* times, char const* share) {
    std::ofstream{folder.path() / name} << fmt::format(
        R"({{"peak_flops_per_s": {0}, "math_efficiency": 1, "memory_bytes_per_s": {0}, "ranks_per_node": 4,
             "node_bytes_per_s": {1}, "network_bytes_per_s": {1}, "enqueue_us": {2}, "kernel_us": {2},
             "communication_share": {3}, "ring": [{{"start_us": {2}, "step_us": {2}}}]}})",
        flops, bytes, times, share);
  };
  write("slowest.json", "1e6", "1e6", "1e6", "1");
  write("held_up.json", "1e15", "1e6", "0.001", "0.9999");
  write("fastest.json", "1e18", "1e18", "0.001", "0");
  auto const run = [&](std::string const& machine, std::string const& job) {
    return zeroth_tool("simulate --machine " + machine + " " + job, folder.path());
  };
  auto const slowest = run("slowest.json", "--model 1T --ranks 1024");
  CHECK(slowest.status == 1);
  CHECK(contains(slowest.output, "slowest.json\": steps of this model would take more than 1e+09 seconds"));
  for (auto const& result : {run("held_up.json", sanitized ? "--model 124M --ranks 8" : "--model 7.5B --ranks 64"),
                             run("fastest.json", "--parameters 1 --units 1 --ranks 1 --context 1"),
                             run("fastest.json", "--parameters 1 --units 1 --ranks 1048576 --context 16777216")}) {
    INFO(result.output);
    CHECK(result.status == 0);
    for (char const* const wrong : {"-nan", " nan", "inf %", " -9"}) {
      CHECK_FALSE(contains(result.output, wrong));
    }
  }
}

/// Lines in the format of bench_collectives: a start of 100 us, and 1 GB/s.
std::string measured_lines(int ranks) {
  std::string lines;
  for (char const* const name : {"all_gather", "reduce_scatter"}) {
    for (std::int64_t const bytes : {1 << 16, 1 << 20, 1 << 24}) {
      double const moved = static_cast<double>(bytes) * (ranks - 1) / ranks;
      lines += fmt::format("{{\"benchmark\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"bus_gb_per_s\": {}}}\n", name,
                           ranks, bytes, 1e-9 * moved / (1e-4 + 1e-9 * moved));
    }
  }
  return lines;
}

TEST_CASE("Measured links replace a machine's") {
  Folder const folder;
  std::ofstream{folder.path() / "links.jsonl"} << measured_lines(2) << measured_lines(4);
  auto const file = (folder.path() / "links.jsonl").string();
  // The same links as a machine.
  auto machine = json::parse(R"({"peak_flops_per_s": 1e13, "math_efficiency": 1, "memory_bytes_per_s": 1e11,
      "ranks_per_node": 2, "node_bytes_per_s": 1e9, "network_bytes_per_s": 1e9, "communication_share": 0.5,
      "enqueue_us": 1, "kernel_us": 1, "ring": [{"start_us": 0, "step_us": 33.333333, "network_step_us": 33.333333}]})");
  std::ofstream{folder.path() / "slow.json"} << machine;
  machine["node_bytes_per_s"] = machine["network_bytes_per_s"] = 1e12;
  machine["tree"] = machine["ring"];
  std::ofstream{folder.path() / "fast.json"} << machine;
  auto const with = [&](char const* name, std::string const& more) {
    return simulated("--model 124M --ranks 4 --machine " + (folder.path() / name).string() + more);
  };
  auto const slow = with("slow.json", "");
  auto const fast = with("fast.json", "");
  auto const measured = with("fast.json", " --measured-links " + file);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    auto const step_of = [stage](json const& all) { return all["stages"][stage]["step_ms"].get<double>(); };
    CHECK(step_of(measured) == Approx(step_of(slow)).epsilon(1e-3));
    CHECK(step_of(fast) < 0.5 * step_of(slow));
  }
  auto const refused = [&](std::string const& options, std::string const& why) {
    check_failed("simulate --model 124M " + options, why, folder.path());
  };
  refused(
      "--ranks 3 --measured-links links.jsonl",
      "links.jsonl: has 0 lines of 3 ranks, among lines of [2, 4] ranks; at least two of different sizes are needed");
  std::ofstream{folder.path() / "other.jsonl"} << R"({"benchmark": "adamw"})"
                                               << "\n";
  refused("--ranks 4 --measured-links other.jsonl",
          "other.jsonl, line 1: benchmark is \"adamw\"; allowed: all_gather and reduce_scatter");
  std::ofstream{folder.path() / "zero.jsonl"}
      << R"({"benchmark": "all_gather", "ranks": 4, "bytes": 65536, "bus_gb_per_s": 0})"
      << "\n";
  refused("--ranks 4 --measured-links zero.jsonl", "zero.jsonl, line 1: bus_gb_per_s is 0; allowed: a number above 0");
  refused("--ranks 4 --measured-links /nowhere", "/nowhere: ");
}

TEST_CASE("Help names every option of a simulation") {
  auto const help = zeroth_tool("simulate --help");
  CHECK(help.status == 0);
  for (char const* option :
       {"--model", "--parameters", "--units", "--config", "--ranks", "--machine", "--measured-links", "--context",
        "--recompute", "--schedules", "--permute", "--all-ranks", "--slow", "--trace", "--json"}) {
    CHECK(contains(help.output, option));
  }
}

TEST_CASE("Simulating one trillion parameters on 1024 ranks needs less than a GiB of memory") {
  auto const parsed = simulated("--model 1T --ranks 1024");
  CHECK(parsed["model"]["parameters"] == 1'008'038'758'400);
  CHECK(parsed["stages"][3]["step_ms"] > 0);
  rusage usage{};
  REQUIRE(getrusage(RUSAGE_CHILDREN, &usage) == 0);
  CHECK(usage.ru_maxrss > 1000);  // KiB, of the largest child so far
  if (!sanitized) {               // a sanitizer needs several bytes for each byte of the program
    CHECK(usage.ru_maxrss < 1024 * 1024);
  }
}

}  // namespace
}  // namespace zeroth::testing
