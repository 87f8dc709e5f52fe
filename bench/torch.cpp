// SPDX-License-Identifier: Apache-2.0
/// The overhead of the LibTorch adapter, on the GPT of examples/torch_gpt.
///
///   bench_torch [ROUNDS] [--load L1|L2] [--stages 0,3]
/// One rank: the time of forward and backward, and of whole steps, of plain libtorch with its AdamW, divided by that of
/// Trainers. Both take turns in one run. Prints one JSON line per stage.
///
///   mpirun -n 4 bench_torch --train STEPS --stage 3 [--load L1|L2] [--initial FOLDER] --data FILE
/// Several ranks: tokens per second, losses, and this rank's memory above that of a process that has trained a tiny
/// model. bench/peers/train.py prints the same for DDP and FSDP2 on the same load.
#include "torch_gpt/gpt.hpp"

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batches.hpp"
#include "command_line.hpp"
#include "corpus.hpp"
#include "model_folder.hpp"
#include "paired.hpp"
#include "resident.hpp"

namespace {

using zeroth::torch_adapter::Trainer;

struct Load {
  std::int64_t context, micro_batch;
};
std::map<std::string, Load> const loads{{"L1", {256, 4}}, {"L2", {128, 1}}, {"tiny", {16, 2}}};

struct Options {
  int rounds = 9;
  std::string load = "L1";
  std::vector<int> stages{0, 3};
  int stage = 0;
  std::int64_t train = 0, warmup = 2;
  std::filesystem::path initial, data;
};

gpt::Shape shape_of(Options const& options) {
  gpt::Shape shape;
  shape.context = loads.at(options.load).context;
  return options.load == "tiny" ? gpt::Shape{2, 2, 32, 16, 256} : shape;
}

zeroth::Config config_of(Options const& options, int stage) {
  return zeroth::Config::from_json(
      R"({"train_micro_batch_size_per_gpu": )" + std::to_string(loads.at(options.load).micro_batch) +
      R"(, "gradient_clipping": 1.0, "zero_optimization": {"stage": )" + std::to_string(stage) +
      R"(, "overlap_comm": true, "reduce_bucket_size": 2e6, "stage3_prefetch_bucket_size": 4e6},
          "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.999], "weight_decay": 0.1}}})");
}

std::pair<torch::Tensor, torch::Tensor> random_batch(gpt::Shape const& shape, std::int64_t rows) {
  auto const tokens = torch::randint(shape.vocabulary, {rows, shape.context + 1}, torch::kLong);
  return {tokens.slice(1, 0, shape.context).contiguous(), tokens.slice(1, 1).contiguous()};
}

/// Trains with libtorch alone.
class Plain {
 public:
  explicit Plain(gpt::Shape const& shape)
      : net_{zeroth::torch_adapter::seeded(1, [&] { return torch_gpt::Gpt{shape}; })},
        optimizer_{net_->parameters(), torch::optim::AdamWOptions{1e-4}.weight_decay(0.1)} {}
  void forward_backward(torch::Tensor const& tokens, torch::Tensor const& targets) {
    optimizer_.zero_grad();
    torch_gpt::loss_of(net_(tokens), targets).backward();
  }
  void step(torch::Tensor const& tokens, torch::Tensor const& targets) {
    forward_backward(tokens, targets);
    torch::nn::utils::clip_grad_norm_(net_->parameters(), 1.0);
    optimizer_.step();
  }

 private:
  torch_gpt::Gpt net_;
  torch::optim::AdamW optimizer_;
};

/// Trains the same model with a Trainer.
class Adapted {
 public:
  Adapted(zeroth::Job& job, Options const& options, int stage)
      : net_{zeroth::torch_adapter::seeded(1, [&] { return torch_gpt::Gpt{shape_of(options)}; })},
        trainer_{job, config_of(options, stage), *net_} {}
  double forward_backward(torch::Tensor const& tokens, torch::Tensor const& targets) {
    double seconds = 0;
    for (auto micro : trainer_.micro_steps()) {
      seconds = zeroth::bench::seconds([&] { micro.backward(torch_gpt::loss_of(net_(tokens), targets)); });
    }
    return seconds;
  }
  void update() { trainer_.step(); }

 private:
  torch_gpt::Gpt net_;
  Trainer trainer_;
};

/// Medians in seconds, and the ratio of two series by round.
nlohmann::json compared(std::vector<double> const& plain, std::vector<double> const& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ratios.push_back(ours[i] / plain[i]);
  }
  using zeroth::bench::quantile;
  return {{"plain_ms", 1e3 * quantile(plain, 0.5)},
          {"zeroth_ms", 1e3 * quantile(ours, 0.5)},
          {"ratio", quantile(ratios, 0.5)},
          {"ratio_low", quantile(ratios, 0.25)},
          {"ratio_high", quantile(ratios, 0.75)}};
}

void compare_with_plain(zeroth::Job& job, Options const& options) {
  at::set_num_threads(1);
  auto const shape = shape_of(options);
  auto const [tokens, targets] = random_batch(shape, loads.at(options.load).micro_batch);
  for (int const stage : options.stages) {
    Plain plain{shape};
    Adapted adapted{job, options, stage};
    std::vector<double> plain_passes, our_passes, plain_steps, our_steps;
    for (int round = -2; round < options.rounds; ++round) {
      auto const run_plain = [&] {
        auto const passes = zeroth::bench::seconds([&] { plain.forward_backward(tokens, targets); });
        return std::pair{passes, zeroth::bench::seconds([&] { plain.step(tokens, targets); })};
      };
      auto const run_ours = [&] {
        auto const passes = adapted.forward_backward(tokens, targets);
        adapted.update();
        return std::pair{passes, zeroth::bench::seconds([&] {
                           adapted.forward_backward(tokens, targets);
                           adapted.update();
                         })};
      };
      std::pair<double, double> theirs, ours;
      if (round % 2 == 0) {
        theirs = run_plain();
        ours = run_ours();
      } else {
        ours = run_ours();
        theirs = run_plain();
      }
      if (round >= 0) {
        plain_passes.push_back(theirs.first);
        plain_steps.push_back(theirs.second);
        our_passes.push_back(ours.first);
        our_steps.push_back(ours.second);
      }
    }
    std::cout << nlohmann::json{{"bench", "torch"},
                                {"load", options.load},
                                {"stage", stage},
                                {"rounds", options.rounds},
                                {"forward_backward", compared(plain_passes, our_passes)},
                                {"step", compared(plain_steps, our_steps)}}
                     .dump()
              << std::endl;
  }
}

/// Trains on the file's text, from the weights in a folder.
class Training {
 public:
  Training(zeroth::Job& job, Options const& options)
      : shape_{shape_of(options)},
        corpus_{options.data},
        batches_{corpus_, shape_.context, gpt::Order::sequential, 0},
        net_{zeroth::torch_adapter::seeded(1, [&] { return torch_gpt::Gpt{shape_}; })},
        trainer_{job, config_of(options, options.stage), *net_, trainer_options(options)} {}
  void step() {
    for (auto micro : trainer_.micro_steps()) {
      batches_.read(micro.first_sample(), trainer_.micro_batch(), batch_);
      micro.backward(torch_gpt::loss_of(net_(tensor(batch_.inputs)), tensor(batch_.targets)));
    }
    see(trainer_.step());
  }
  /// The losses of all steps.
  [[nodiscard]] std::vector<double> const& losses() {
    see(trainer_.finish());
    return losses_;
  }
  [[nodiscard]] Trainer& trainer() { return trainer_; }
  [[nodiscard]] std::int64_t tokens() const { return trainer_.micro_batch() * shape_.context; }

 private:
  [[nodiscard]] zeroth::torch_adapter::TrainerOptions trainer_options(Options const& options) const {
    auto result = torch_gpt::options_of(shape_);
    if (!options.initial.empty()) {
      result.weights = options.initial / gpt::weights_name;
    }
    return result;
  }
  [[nodiscard]] torch::Tensor tensor(std::vector<std::uint8_t>& bytes) const {
    return torch::from_blob(bytes.data(), {trainer_.micro_batch(), shape_.context}, torch::kByte).to(torch::kLong);
  }
  void see(std::optional<zeroth::StepReport> const& report) {
    if (report) {
      losses_.push_back(static_cast<double>(report->loss));
    }
  }

  gpt::Shape shape_;
  gpt::Corpus corpus_;
  gpt::Batches batches_;
  gpt::Batch batch_;
  torch_gpt::Gpt net_;
  Trainer trainer_;
  std::vector<double> losses_;
};

void train(zeroth::Job& job, Options const& options) {
  auto idle = options;
  idle.load = "tiny";
  idle.initial.clear();
  Training{job, idle}.step();
  zeroth::bench::Growth const growth;
  Training training{job, options};
  std::vector<double> step_ms;
  for (std::int64_t step = 0; step < options.warmup + options.train; ++step) {
    step_ms.push_back(1e3 * zeroth::bench::seconds([&] { training.step(); }));
  }
  auto const& losses = training.losses();
  if (job.rank() == 0) {
    auto const measured = std::vector<double>(step_ms.begin() + options.warmup, step_ms.end());
    auto const tokens = static_cast<double>(training.tokens() * job.world());
    std::cout << nlohmann::json{{"bench", "torch"},
                                {"load", options.load},
                                {"stage", options.stage},
                                {"ranks", job.world()},
                                {"tokens_per_s", tokens / zeroth::bench::quantile(measured, 0.5) * 1e3},
                                {"step_ms", step_ms},
                                {"losses", losses},
                                {"planned_bytes", training.trainer().engine().planned().total()},
                                {"peak_bytes", growth.peak()}}
                     .dump()
              << std::endl;
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  Options options;
  CLI::App app{"What the LibTorch adapter costs"};
  app.add_option("ROUNDS", options.rounds, "Of turns with plain libtorch")->check(zeroth::bench::count);
  app.add_option("--load", options.load, "L1, L2 or tiny")->check(CLI::IsMember({"L1", "L2", "tiny"}));
  app.add_option("--stages", options.stages, "To compare with plain libtorch")->delimiter(',');
  app.add_option("--train", options.train, "Steps of several ranks, instead")->check(zeroth::bench::count);
  app.add_option("--warmup", options.warmup, "Steps ahead of those, 2 if not given");
  app.add_option("--stage", options.stage, "With --train")->check(CLI::Range{0, 3});
  app.add_option("--initial", options.initial, "With --train: a model folder to start from");
  app.add_option("--data", options.data, "With --train: the text");
  CLI11_PARSE(app, argument_count, arguments);
  return zeroth::torch_adapter::launch({.thread_ranks = 1}, [&](zeroth::Job& job) {
    options.train > 0 ? train(job, options) : compare_with_plain(job, options);
  });
}
