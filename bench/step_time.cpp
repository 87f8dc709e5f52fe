// SPDX-License-Identifier: Apache-2.0
/// Compares the step time of stages 1, 2 and 3 with stage 0, on train_gpt's model: all stages take turns in one run, so
/// that disturbances of the machine affect all of them. Stage 0 runs twice: its ratio to itself is the noise.
///
///   bench_step_time [ROUNDS [TEXT [all|L1|L2 [RANKS...]]]] [--precision fp32|bf16]
/// prints one JSON line per stage, load and number of ranks. --groups, --reductions and --replay compare other things.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "batches.hpp"
#include "command_line.hpp"
#include "cpu/micro_steps.hpp"
#include "loads.hpp"
#include "paired.hpp"
#include "zeroth/zeroth.hpp"

namespace {

using zeroth::bench::Load;
using zeroth::bench::loads;
using zeroth::bench::math_for;
using zeroth::bench::shape_of;

/// A variant to time. The first of several is the base of ratios, and the second equals it, to show the noise.
struct Variant {
  int stage = 0;
  std::string groups{};  ///< More keys of zero_optimization, each with a comma before it.
  std::string zeroth{};  ///< Keys of the section zeroth.
  int accumulation = 1;
};
/// Variants to compare with the first of them.
struct Comparison {
  char const* name;
  std::vector<Variant> variants;
};
Comparison all_stages() { return {"step_time", {{0}, {0}, {1}, {2}, {3}}}; }
Comparison in_groups(int size) {
  return {"step_time_in_groups",
          {{3},
           {3},
           {3, fmt::format(R"(, "zero_hpz_partition_size": {})", size)},
           {3, fmt::format(R"(, "mics_shard_size": {})", size)}}};
}
Comparison reductions(int stage) {
  auto const when = [&](char const* word) {
    return Variant{stage, "", fmt::format(R"("reduce_gradients": "{}")", word), 4};
  };
  return {"step_time_of_reductions", {when("last_micro_step"), when("last_micro_step"), when("every_micro_step")}};
}
/// Replays in every step, to show the cost of one.
Comparison replays(int stage) {
  return {"step_time_of_replays", {{stage}, {stage}, {stage, "", R"("replay_every": 1)"}}};
}

template <class T>
std::string stage_file(Variant const& variant, Load const& load) {
  return fmt::format(R"({{
    "train_micro_batch_size_per_gpu": {}, "gradient_accumulation_steps": {}, "gradient_clipping": 1.0,
    "zero_optimization": {{"stage": {}, "overlap_comm": true, "reduce_bucket_size": 2e6,
                           "stage3_prefetch_bucket_size": 4e6{}}}, "bf16": {{"enabled": {}}},
    "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-4, "weight_decay": 0.1}}}}, "zeroth": {{{}}} }})",
                     load.micro_batch, variant.accumulation, variant.stage, variant.groups,
                     std::same_as<T, zeroth::bf16>, variant.zeroth);
}

/// Trains one model with one engine.
template <class T>
class Runner {
 public:
  Runner(zeroth::Job& job, gpt::Shape const& shape, gpt::Batches const& batches, Variant const& variant,
         Load const& load, gpt::MathChoice const& choice)
      : batches_{batches},
        model_{1},
        params_{model_, shape},
        engine_{job, model_, zeroth::Config::from_json(stage_file<T>(variant, load))},
        micro_steps_{engine_, params_, {}, choice, {}} {}

  /// Returns the milliseconds per step that the compute thread waited for communication.
  double run(int steps) {
    double exposed_ms = 0;
    for (int step = 0; step < steps; ++step) {
      for (auto micro : engine_.micro_steps()) {
        batches_.read(micro.first_sample(), engine_.micro_batch(), batch_);
        micro_steps_.run(micro, batch_);
      }
      if (auto const before = engine_.step()) {
        exposed_ms += before->exposed_comm_ms;
      }
    }
    exposed_ms += engine_.finish()->exposed_comm_ms;  // finish() keeps this turn's work out of the next turn
    return exposed_ms / steps;
  }

 private:
  gpt::Batches const& batches_;
  zeroth::Model model_;
  gpt::GptParams params_;
  zeroth::Engine<T> engine_;
  gpt::cpu::MicroSteps<T, T> micro_steps_;
  gpt::Batch batch_;
};

struct Figures {
  using ByRound = std::vector<double>;
  explicit Figures(std::size_t variants) : seconds{variants}, exposed_ms{variants} {}
  std::vector<ByRound> seconds, exposed_ms;  ///< Rank 0's, by variant.
};

template <class T>
Figures measure(Load const& load, int ranks, int rounds, gpt::Batches const& batches, Comparison const& comparison) {
  auto const& variants = comparison.variants;
  auto const shape = shape_of(load);
  Figures figures{variants.size()};
  int const status = zeroth::launch({.thread_ranks = ranks}, [&](zeroth::Job& job) {
    std::vector<std::unique_ptr<Runner<T>>> runners;
    for (auto const& variant : variants) {
      runners.push_back(std::make_unique<Runner<T>>(job, shape, batches, variant, load, math_for(zeroth::dtype_of<T>)));
      static_cast<void>(runners.back()->run(2));  // warms pages and caches
    }
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t turn = 0; turn < runners.size(); ++turn) {
        auto const which = (turn + static_cast<std::size_t>(round)) % runners.size();
        auto const steps = load.steps_of(variants[which].accumulation);
        double exposed_ms = 0;
        auto const spent = zeroth::bench::seconds([&] { exposed_ms = runners[which]->run(steps); });
        if (job.rank() == 0) {
          figures.seconds[which].push_back(spent);
          figures.exposed_ms[which].push_back(exposed_ms);
        }
      }
    }
  });
  if (status != 0) {
    std::exit(status);
  }
  return figures;
}

template <class T>
void print(Load const& load, int ranks, Figures const& figures, Comparison const& comparison) {
  auto const& variants = comparison.variants;
  auto const shape = shape_of(load);
  auto const& base = figures.seconds[0];
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < base.size(); ++round) {
      ratios.push_back(figures.seconds[i][round] / base[round]);
    }
    auto const median = zeroth::bench::quantile(figures.seconds[i], 0.5);
    auto const steps = load.steps_of(variants[i].accumulation);
    auto const samples = load.micro_batch * variants[i].accumulation * ranks * steps;
    nlohmann::ordered_json line{
        {"benchmark", comparison.name},
        {"load", load.name},
        {"precision", zeroth::name_of(zeroth::dtype_of<T>)},
        {"products", math_for(zeroth::dtype_of<T>).name},
        {"layers", shape.layers},
        {"channels", shape.channels},
        {"micro_batch", load.micro_batch},
        {"context", load.context},
        {"ranks", ranks},
        {"stage", variants[i].stage},
        {"stage_file", nlohmann::ordered_json::parse(stage_file<T>(variants[i], load))},
        {"rounds", base.size()},
        {"step_ms", 1e3 * median / steps},
        {"exposed_comm_ms", zeroth::bench::quantile(figures.exposed_ms[i], 0.5)},
        {"tokens_per_s", static_cast<double>(samples * load.context) / median},
        {fmt::format("ratio_to_stage_{}", variants[0].stage), zeroth::bench::quantile(ratios, 0.5)},
        {"ratio_quartiles", {zeroth::bench::quantile(ratios, 0.25), zeroth::bench::quantile(ratios, 0.75)}}};
    if (i == 0) {
      continue;  // the base is not compared with itself
    }
    fmt::print("{}\n", line.dump());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Step time of stages 1, 2 and 3 over stage 0"};
  int rounds = 12;
  std::string text = ZEROTH_SOURCE_DIR "/bench/step_time.cpp";
  std::string wanted = "all", precision = "fp32";
  std::vector<int> ranks_to_measure{2, 4};
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("TEXT", text, "to train on")->capture_default_str()->check(CLI::ExistingFile);
  app.add_option("LOAD", wanted, "which model")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", loads[0].name, loads[1].name}));
  app.add_option("RANKS", ranks_to_measure, "numbers of ranks")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("--precision", precision, "of the math")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16"}));
  int group_size = 0;
  app.add_option("--groups", group_size, "ranks of a group: hpZ and MiCS over stage 3, in place of stages over stage 0")
      ->check(zeroth::bench::count);
  int reductions_at = -1, replays_at = -1;
  app.add_option("--reductions", reductions_at, "a stage: every_micro_step over last_micro_step, 4 micro-steps a step")
      ->check(CLI::Range(0, 3));
  app.add_option("--replay", replays_at, "a stage: steps with a replay over steps without")->check(CLI::Range(0, 3));
  CLI11_PARSE(app, argc, argv);
  auto const comparison = group_size > 0       ? in_groups(group_size)
                          : reductions_at >= 0 ? reductions(reductions_at)
                          : replays_at >= 0    ? replays(replays_at)
                                               : all_stages();
  try {
    gpt::Corpus const corpus{text};
    for (auto const& load : loads) {
      if (wanted != "all" && wanted != load.name) {
        continue;
      }
      gpt::Batches const batches{corpus, load.context, gpt::Order::sequential, 1};
      auto const in = [&]<class T>(T /*element*/) {
        for (int const ranks : ranks_to_measure) {
          print<T>(load, ranks, measure<T>(load, ranks, rounds, batches, comparison), comparison);
        }
      };
      precision == "bf16" ? in(zeroth::bf16{}) : in(float{});
    }
  } catch (std::exception const& error) {
    fmt::print(stderr, "bench_step_time: {}\n", error.what());
    return 1;
  }
}
