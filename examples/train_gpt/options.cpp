// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>
#include <zeroth/comm/transport.hpp>
#include <zeroth/tool/core/duration.hpp>

namespace gpt {

namespace {

constexpr char const* chosen_by_launcher = "auto";

std::vector<std::string> transport_words() {
  auto words = zeroth::comm::transport_names();
  words.insert(words.begin(), chosen_by_launcher);
  return words;
}

std::map<std::string, zeroth::DeviceKind> const devices{{"cpu", zeroth::DeviceKind::cpu},
                                                        {"cuda", zeroth::DeviceKind::cuda}};
std::map<std::string, MathLibrary> const libraries{
    {"auto", MathLibrary::automatic}, {"eigen", MathLibrary::eigen}, {"onednn", MathLibrary::onednn}};
std::map<std::string, AttentionLibrary> const attentions{{"own", AttentionLibrary::own},
                                                         {"cudnn", AttentionLibrary::cudnn}};
std::map<std::string, Order> const orders{{"sequential", Order::sequential}, {"shuffled", Order::shuffled}};

/// A whole number from `lowest` on; CLI11's own messages about bounds mention floating point.
CLI::Validator at_least(std::int64_t lowest) {
  return CLI::Validator{[lowest](std::string const& text) {
                          std::int64_t value = 0;
                          return CLI::detail::lexical_cast(text, value) && value >= lowest
                                     ? std::string{}
                                     : text + " is not a whole number of at least " + std::to_string(lowest);
                        },
                        "INT >= " + std::to_string(lowest)};
}

CLI::Validator within(Extents const& allowed) {
  auto const bounds = std::to_string(allowed.least) + " to " + std::to_string(allowed.most);
  return CLI::Validator{[allowed, bounds](std::string const& text) {
                          std::int64_t value = 0;
                          return CLI::detail::lexical_cast(text, value) && allowed.contain(value)
                                     ? std::string{}
                                     : text + " is not a whole number from " + bounds;
                        },
                        "INT from " + bounds};
}

CLI::Validator positive() {
  return CLI::Validator{[](std::string const& text) {
                          double value = 0;
                          return CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value)
                                     ? std::string{}
                                     : text + " is not a number above 0";
                        },
                        "FLOAT > 0"};
}

/// A dropout rate.
CLI::Validator rate() {
  return CLI::Validator{[](std::string const& text) {
                          float value = 0;
                          return CLI::detail::lexical_cast(text, value) && value >= 0 && value < 1
                                     ? std::string{}
                                     : text + " is not a number from 0 to below 1";
                        },
                        "FLOAT in [0, 1)"};
}

/// A non-empty path, because an unset shell variable is empty.
CLI::Validator not_empty() {
  return CLI::Validator{[](std::string const& text) { return text.empty() ? "is empty; allowed: a path" : ""; },
                        "PATH"};
}

/// Reads a number of steps, or a time with its unit.
void read_save_every(std::string const& text, Options& o) {
  std::int64_t steps = 0;
  bool const is_count = CLI::detail::lexical_cast(text, steps) && steps >= 1;
  o.save_every = is_count ? std::optional{steps} : std::nullopt;
  o.save_every_s = zeroth::seconds_in(text);
  if (!is_count && !o.save_every_s) {
    throw CLI::ValidationError{"--save-every",
                               text +
                                   " is neither a whole number of steps, at least 1, nor a time such as "
                                   "30s, 10min, 2h or 1d, up to 10^9 s"};
  }
}

void declare_checkpoints(CLI::App& app, Options& o) {
  app.add_option("--checkpoint", o.checkpoint,
                 "Folder for checkpoints. One is saved after the last step, or when SIGTERM, SIGUSR1 or Ctrl-C stops "
                 "the run early, with exit status 75")
      ->check(not_empty());
  app.add_option_function<std::string>(
         "--save-every", [&o](std::string const& text) { read_save_every(text, o); },
         "Also save every so many steps, or whenever so much time has passed: 500, 10min")
      ->type_name("STEPS|TIME");
  app.add_option("--keep", o.keep, "Number of newest checkpoints to keep; 0: all [zeroth.checkpoint.keep of --config]")
      ->check(at_least(0));
  app.add_option("--resume", o.resume,
                 "Resume from a checkpoint, or from the last one in a folder. auto: from the newest usable one in "
                 "--checkpoint, or from the beginning if there is none")
      ->check(not_empty());
  app.add_option("--max-restarts", o.max_restarts,
                 "Restart ranks that are threads from the newest checkpoint after up to so many failures without a new "
                 "one; for processes use zeroth run")
      ->check(CLI::Range{0, 1'000'000})
      ->capture_default_str();
}

/// Options with words as values.
struct Words {
  std::string order = "sequential", comm = "auto", device = "cpu", math = "auto", attention = "own";
};

void declare(CLI::App& app, Options& o, Words& words) {
  declare(app, o.stage_file);
  app.add_option("--data", o.data, "Text file, or folder of text files; a byte is a token");
  app.add_option("--ranks", o.ranks,
                 "Number of ranks, as threads; a launcher (mpirun, torchrun, srun) determines it otherwise [1]")
      ->check(at_least(1));
  app.add_option("--steps", o.steps, "Optimizer steps, counted from the beginning of training, also in a resumed run")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option("--grace", o.grace_s, "Seconds to stop and save after the first SIGTERM or SIGUSR1")
      ->check(CLI::Range{0, 86'400})
      ->capture_default_str();
  app.add_option("--join-timeout", o.join_timeout_s, "Seconds to wait for all of a launcher's processes")
      ->check(CLI::Range{1, 86'400})
      ->capture_default_str();
  app.add_option("--layers", o.shape.layers, "Transformer blocks [6]")->check(within(layers_allowed));
  app.add_option("--heads", o.shape.heads, "Attention heads per block [6]")->check(within(width_allowed));
  app.add_option("--channels", o.shape.channels, "Width of the model, a multiple of --heads [384]")
      ->check(within(width_allowed));
  app.add_option("--context", o.shape.context, "Tokens per sequence [256]")->check(within(width_allowed));
  app.add_option("--vocabulary", o.shape.vocabulary, "Rows of the token embedding; bytes use the first 256 [256]")
      ->check(within(vocabulary_allowed));
  app.add_flag("--untied-head", o.shape.untied_head, "Give the head its own matrix instead of the token embedding");
  app.add_option("--dropout", o.dropout, "Dropout rate after the embedding, attention and the MLP")
      ->check(rate())
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of initialisation, shuffling, dropout and random attention blocks")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option("--order", words.order, "Order of the sequences in an epoch")
      ->check(CLI::IsMember{{"sequential", "shuffled"}})
      ->capture_default_str();
  declare_checkpoints(app, o);
  app.add_option("--peak-tflops", o.peak_tflops,
                 "Peak TFLOP/s of a rank's processor; the progress line then prints the MFU")
      ->check(positive());
  app.add_option("--report", o.report, "Write a report of the run as JSON lines");
  app.add_option("--trace", o.trace, "Write a trace of up to five steps, from the third on, for Chrome or Perfetto");
  app.add_option("--save-initial", o.save_initial, "Write the model before the first step, in Hugging Face's format");
  app.add_option("--save-final", o.save_final,
                 "Write the model after the last step, in Hugging Face's format; without --checkpoint also when the "
                 "run is stopped early");
  app.add_option("--init", o.init, "Start from the weights and shapes of a model folder");
  app.add_option("--comm", words.comm,
                 "Transport between ranks. auto: local for threads; for processes nccl on GPUs, mpi under mpirun, tcp "
                 "otherwise")
      ->check(CLI::IsMember{transport_words()})
      ->capture_default_str();
  app.add_option("--device", words.device, "Device of each rank; cuda: the GPU of its local rank")
      ->check(CLI::IsMember{{"cpu", "cuda"}})
      ->capture_default_str();
  app.add_option("--math", words.math,
                 "Library for matrix products with --device cpu. auto: oneDNN for fp32 with AVX-512, and for bf16 if "
                 "the processor has instructions for it; Eigen otherwise")
      ->check(CLI::IsMember{{"auto", "eigen", "onednn"}})
      ->capture_default_str();
  app.add_flag("--show-products", o.show_products,
               "With --device cpu: print which library multiplies matrices of which shapes");
  app.add_flag("--share-devices", o.share_devices, "With --device cuda: let several ranks share a GPU");
  app.add_flag("--tf32", o.tf32, "With --device cuda and fp32: round the factors of matrix products to TF32");
  app.add_flag("--step-graph", o.step_graph,
               "With --device cuda and --comm nccl: record a step, and launch it as CUDA graphs for all others");
  app.add_option("--attention", words.attention,
                 "With --device cuda: own kernels, or those of cuDNN for bf16 and fp16, which is loaded for it")
      ->check(CLI::IsMember{{"own", "cudnn"}})
      ->capture_default_str();
  app.add_option("--algorithms", o.algorithms,
                 "With --device cuda: file with cuBLASLt's algorithm for each product, which bench_cuda_gpt "
                 "--algorithms measured [cuBLASLt's choice]")
      ->check(not_empty());
  app.add_flag("--plan", o.plan, "Print the memory of each rank, and exit");
  app.add_flag("--recompute", o.recompute,
               "Keep only the inputs of all blocks and recompute the rest in backward; the same as --set "
               "zeroth.activation_checkpointing.units=all");
}

/// Throws a ValidationError for options that need another one, or exclude each other.
void check_checkpoints(Options const& o) {
  auto const refuse = [](char const* option, std::string const& why) { throw CLI::ValidationError{option, why}; };
  bool const from_path = !o.resume.empty() && o.resume != resume_newest;
  if (o.checkpoint.empty()) {
    for (auto const& [option, given] :
         {std::pair{"--save-every", o.save_every || o.save_every_s}, std::pair{"--keep", o.keep.has_value()},
          std::pair{"--max-restarts", o.max_restarts > 0}, std::pair{"--resume auto", o.resume == resume_newest}}) {
      if (given) {
        refuse(option, "needs --checkpoint, the folder of checkpoints");
      }
    }
  }
  if (from_path && !o.init.empty()) {
    refuse("--init", "the weights are those of --resume " + o.resume.string() +
                         ": leave --init out, and give the shapes by --layers and so on");
  }
  if (from_path && !o.save_initial.empty()) {
    refuse("--save-initial", "a run that resumes from --resume " + o.resume.string() + " is past its beginning");
  }
  if (from_path && o.max_restarts > 0) {
    refuse("--max-restarts", "restarts from the newest checkpoint in --checkpoint, but --resume " + o.resume.string() +
                                 " always begins with the same: give --resume auto");
  }
  using zeroth::comm::Transport;
  if (o.max_restarts > 0 && o.transport.value_or(Transport::local) != Transport::local) {
    refuse("--max-restarts", "is for ranks that are threads: use zeroth run --max-restarts, which restarts processes");
  }
}

}  // namespace

CommandLine parse(int argc, char const* const* argv, std::ostream& out, std::ostream& err) {
  CLI::App app{"Trains a GPT-2 on text, byte by byte, with its state sharded over ranks as the stage file says."};
  Options options;
  Words words;
  declare(app, options, words);
  try {
    app.parse(argc, argv);
    if (options.data.empty() && !options.plan) {
      throw CLI::RequiredError{"--data"};
    }
    if (!options.save_final.empty() && options.save_final == options.save_initial) {
      throw CLI::ValidationError{
          "--save-final", options.save_final.string() + " is also the folder of --save-initial; give two folders"};
    }
    for (auto const& [flag, given] :
         {std::pair{"--share-devices", options.share_devices}, std::pair{"--tf32", options.tf32},
          std::pair{"--step-graph", options.step_graph}, std::pair{"--algorithms", !options.algorithms.empty()},
          std::pair{"--attention", app.count("--attention") > 0}}) {
      if (given && words.device != "cuda") {
        throw CLI::ValidationError{flag, "is for --device cuda"};
      }
    }
    for (auto const& [flag, given] :
         {std::pair{"--show-products", options.show_products}, std::pair{"--math", app.count("--math") > 0}}) {
      if (given && words.device != "cpu") {
        throw CLI::ValidationError{flag, "is for --device cpu"};
      }
    }
    if (!options.trace.empty() && options.trace == options.report) {
      throw CLI::ValidationError{"--trace", options.trace.string() + " is also the file of --report; give two files"};
    }
    if (options.step_graph && (options.dropout > 0 || !options.trace.empty())) {
      throw CLI::ValidationError{
          "--step-graph",
          options.dropout > 0
              ? fmt::format("--dropout is {}, and launched steps would drop what the recorded step "
                            "dropped; allowed: 0",
                            options.dropout)
              : std::string{"--trace records a timeline, which launched steps have not; leave one out"}};
    }
    if (words.comm != chosen_by_launcher) {
      options.transport = zeroth::comm::transport_named(words.comm);
    }
    check_checkpoints(options);
  } catch (CLI::ParseError const& error) {
    return {std::nullopt, app.exit(error, out, err) == 0 ? 0 : 2};
  }
  if (options.recompute) {
    options.stage_file.set.emplace_back("zeroth.activation_checkpointing.units=all");
  }
  options.order = orders.at(words.order);
  options.device = devices.at(words.device);
  options.math = libraries.at(words.math);
  options.attention = attentions.at(words.attention);
  return {options, 0};
}

}  // namespace gpt
