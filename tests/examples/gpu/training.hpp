// SPDX-License-Identifier: Apache-2.0
/// train_gpt's loop on a small model, and the results of a run.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "corpus.hpp"
#include "examples/files.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "train_on.hpp"

namespace gpt::testing {

using nlohmann::json;

struct Run {
  int ranks = 1, stage = 3, steps = 20;
  std::string precision = {};  ///< More keys, each with a comma before it.
  bool recompute = false;
  bool offload = false;  ///< Inputs of recomputed blocks wait in host memory.
  float dropout = 0;
  int tensor = 1;  ///< Tensor ranks.
  bool divides_rows = false, untied_head = false;
  bool everywhere = false;  ///< Gradients are reduced after each micro-step at every stage.
  bool traces = false;
  std::string optimizer = R"("type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.1})";
  int layers = 2, context = 12;
  std::string layout = {};                             ///< Members of zeroth.sparse_attention; empty: none.
  std::filesystem::path algorithms = {};               ///< --algorithms
  bool step_graph = false;                             ///< --step-graph
  AttentionLibrary attention = AttentionLibrary::own;  ///< --attention
  std::int64_t save_every = 0;  ///< Saves into `saved` of the folder, and resumes from it; 0: no checkpoints.
};

inline zeroth::Config config_of(Run const& run) {
  return zeroth::Config::from_json(fmt::format(
      R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
    "optimizer": {{ {} }},
    "zero_optimization": {{"stage": {}}},
    "zeroth": {{"timeout_ms": 120000, "mesh": {{"tensor": {}}}, "sequence_parallel": {} {} {} {}}} {} }})",
      run.optimizer, run.stage, run.tensor, run.divides_rows,
      run.everywhere ? R"(, "reduce_gradients": "every_micro_step")" : "",
      !run.recompute ? ""
      : run.offload  ? R"(, "activation_checkpointing": {"units": "all", "offload": "cpu"})"
                     : R"(, "activation_checkpointing": {"units": "all"})",
      run.layout.empty() ? "" : fmt::format(R"(, "sparse_attention": {{ {} }})", run.layout), run.precision));
}

inline Shape const shape{.layers = 2, .heads = 2, .channels = 16, .context = 12};

/// The report's steps and memory, and the saved weights.
struct Left {
  json run;
  std::vector<json> steps, memory;
  std::string weights, trace;
};

/// Runs a function on all ranks of a job of so many.
using RunJob = std::function<zeroth::testing::Outcome(int ranks, std::function<void(zeroth::Job&)> const& rank_main)>;

/// Ranks are threads on the devices that `make_device` makes.
inline RunJob as_threads(zeroth::testing::MakeDevice make_device) {
  return [make_device = std::move(make_device)](int ranks, std::function<void(zeroth::Job&)> const& rank_main) {
    return zeroth::testing::run_job(ranks, rank_main, {}, make_device);
  };
}

/// train_on_cpu(), train_on_gpu(), or a test's variant of them.
using TrainOn = std::function<void(zeroth::Job&, Task const&)>;

inline Left train_in(Folder const& folder, Run const& run, RunJob const& run_job, TrainOn const& train_on) {
  folder.write("text", squares());
  Options options;
  options.data = folder / "text";
  options.report = folder / "report";
  options.save_final = folder / "model";
  options.trace = run.traces ? folder / "trace" : std::filesystem::path{};
  options.steps = run.steps;
  options.seed = 9;
  options.dropout = run.dropout;
  options.algorithms = run.algorithms;
  options.step_graph = run.step_graph;
  options.attention = run.attention;
  if (run.save_every > 0) {
    options.checkpoint = folder / "saved";
    options.save_every = run.save_every;
    options.resume = resume_newest;
  }
  Corpus const corpus{options.data};
  auto const config = config_of(run);
  auto shape_of_run = shape;
  shape_of_run.context = run.context;
  Batches const batches{corpus, run.context, options.order, options.seed};
  shape_of_run.untied_head = run.untied_head;
  shape_of_run.layers = run.layers;
  Task const task{options, config, shape_of_run, batches};
  auto const outcome = run_job(run.ranks, [&](zeroth::Job& job) { train_on(job, task); });
  REQUIRE(zeroth::testing::messages_of(outcome) == "");
  Left left;
  std::istringstream lines{read_all(options.report)};
  for (std::string line; std::getline(lines, line);) {
    auto const record = json::parse(line);
    if (record["record"] == "step") {
      left.steps.push_back(record);
    } else if (record["record"] == "run") {
      left.run = record;
    } else if (record["record"] == "memory") {
      left.memory.push_back(record);
    }
  }
  left.weights = read_all(options.save_final / "model.safetensors");
  left.trace = run.traces ? read_all(options.trace) : std::string{};
  return left;
}

inline Left on_cpu(Run const& run) {
  Folder const folder;
  return train_in(folder, run, as_threads({}), train_on_cpu);
}

/// The reported numbers of each step.
inline std::vector<json> numbers(Left const& left) {
  std::vector<json> all;
  for (auto const& step : left.steps) {
    all.push_back({step["step"], step["loss"], step["grad_norm"], step["lr"], step["loss_scale"], step["skipped"]});
  }
  return all;
}

inline std::string const bf16_keys = R"(, "bf16": {"enabled": true})";
inline std::string const fp16_keys = R"(, "fp16": {"enabled": true, "initial_scale_power": 8})";

/// The largest relative difference of losses. Infinite if one is missing.
inline double worst_loss(Left const& a, Left const& b) {
  if (a.steps.size() != b.steps.size() || a.steps.empty()) {
    return HUGE_VAL;
  }
  double worst = 0;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    auto const loss = a.steps[i]["loss"].get<double>();
    worst = std::max(worst, std::abs(loss - b.steps[i]["loss"].get<double>()) / loss);
  }
  return worst;
}

}  // namespace gpt::testing
