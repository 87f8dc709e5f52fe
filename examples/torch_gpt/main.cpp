// SPDX-License-Identifier: Apache-2.0
/// The GPT of examples/train_gpt as a libtorch module, trained as a stage file says. See docs/torch.md.
///
///   torch_gpt --data FILE --config configs/zero3.json [--ranks 4], or under mpirun
#include "gpt.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "batches.hpp"
#include "corpus.hpp"
#include "model_folder.hpp"

namespace {

struct Options {
  std::filesystem::path data, config = "configs/zero3.json", init, save_final;
  int ranks = 4;
  std::int64_t steps = 100;
  std::uint64_t seed = 0;
  gpt::ShapeOptions shape;
  bool recompute = false;
};

/// The tokens and their targets, as [rows, context].
std::pair<torch::Tensor, torch::Tensor> to_tensors(gpt::Batch& batch, std::int64_t context) {
  auto const of = [&](std::vector<std::uint8_t>& bytes) {
    return torch::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size()) / context, context}, torch::kByte)
        .to(torch::kLong);
  };
  return {of(batch.inputs), of(batch.targets)};
}

void print(zeroth::Job const& job, std::optional<zeroth::StepReport> const& report) {
  if (report && job.rank() == 0) {
    std::printf("step %lld  loss %.6f  norm %.6f\n", static_cast<long long>(report->step),
                static_cast<double>(report->loss), static_cast<double>(report->grad_norm));
    std::fflush(stdout);
  }
}

void train(zeroth::Job& job, Options const& options) {
  auto const config = zeroth::Config::from_file(options.config);
  auto const shape = gpt::resolve_shape(options.shape, options.init);
  gpt::Corpus const corpus{options.data};
  gpt::Batches const batches{corpus, shape.context, gpt::Order::sequential, options.seed};
  std::optional<gpt::ModelFolder> folder;
  if (job.rank() == 0 && !options.save_final.empty()) {
    folder.emplace(options.save_final);
  }

  auto net = zeroth::torch_adapter::seeded(options.seed, [&] { return torch_gpt::Gpt{shape}; });
  auto trainer_options = torch_gpt::options_of(shape);
  trainer_options.seed = options.seed;
  if (options.recompute) {
    trainer_options.recompute = {"transformer.h.*"};
  }
  if (!options.init.empty()) {
    trainer_options.weights = options.init / gpt::weights_name;
  }
  zeroth::torch_adapter::Trainer trainer{job, config, *net, trainer_options};

  gpt::Batch batch;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    for (auto micro : trainer.micro_steps()) {
      batches.read(micro.first_sample(), trainer.micro_batch(), batch);
      auto const [tokens, targets] = to_tensors(batch, shape.context);
      micro.backward(torch_gpt::loss_of(net(tokens), targets));
    }
    print(job, trainer.step());  // prints the report of the previous step
  }
  print(job, trainer.finish());
  if (!options.save_final.empty()) {
    trainer.save_weights(folder ? folder->weights() : std::filesystem::path{options.save_final});
    if (folder) {
      folder->publish(shape);
    }
  }
  if (job.rank() == 0) {
    std::printf("planned %lld bytes, peak %lld\n", static_cast<long long>(trainer.engine().planned().total()),
                static_cast<long long>(trainer.engine().peak().total()));
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  Options options;
  CLI::App app{"Trains a GPT-2 that is a libtorch module on the bytes of a file, as a stage file says"};
  app.add_option("--data", options.data, "Text: a file, or a folder of files")->required();
  app.add_option("--config", options.config, "Stage file")->capture_default_str();
  app.add_option("--ranks", options.ranks, "Ranks, as threads, where no launcher started some")->capture_default_str();
  app.add_option("--steps", options.steps, "Updates")->capture_default_str();
  app.add_option("--seed", options.seed, "Of the initialisation")->capture_default_str();
  app.add_option("--layers", options.shape.layers, "Blocks");
  app.add_option("--heads", options.shape.heads, "Attention heads");
  app.add_option("--channels", options.shape.channels, "Of the residual stream");
  app.add_option("--context", options.shape.context, "Tokens of a sequence");
  app.add_option("--init", options.init, "Folder of a Hugging Face GPT-2 to start from");
  app.add_option("--save-final", options.save_final, "Folder for the trained model, as Hugging Face's");
  app.add_flag("--recompute", options.recompute, "Run blocks again in backward, so that activations do not stay");
  CLI11_PARSE(app, argument_count, arguments);
  return zeroth::torch_adapter::launch({.thread_ranks = options.ranks}, [&](zeroth::Job& job) { train(job, options); });
}
