// SPDX-License-Identifier: Apache-2.0
/// Trains a GPT-2 on text, byte by byte, at the stage of the config file.
///
///   train_gpt --config configs/zero3.json --data book.txt --ranks 4
///   mpirun -n 4 train_gpt --config configs/zero3.json --data book.txt
///   train_gpt --config configs/zero3.json --data book.txt --ranks 4 --checkpoint saved --save-every 100 --resume auto
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <zeroth/tool/core/standard_streams.hpp>

#include "checkpoints.hpp"
#include "gpu/tile_visit.hpp"
#include "train_on.hpp"
#include "units.hpp"
#include "zeroth/zeroth.hpp"

namespace {

using zeroth::comm::Transport;

void print_plan(gpt::Options const& options, zeroth::Config const& config, gpt::Shape const& shape) {
  zeroth::Model model{options.seed, {0, config.tensor_ranks()}};
  gpt::GptParams const params{model, shape, config.sequence_parallel() ? gpt::Rows::divided : gpt::Rows::whole};
  auto const world = options.ranks.value_or(1);
  zeroth::write_output(zeroth::explain_plan(zeroth::plan(
      model, config, world, {.transport = options.transport.value_or(Transport::local), .device = options.device})));
}

/// Checks that train_gpt can keep activations as the file asks.
void expect_activations(zeroth::Config const& config, gpt::Options const& options) {
  auto const asked = config.activation_checkpointing();
  if (asked.offload == zeroth::ActivationOffload::nvme && options.device == zeroth::DeviceKind::cuda) {
    throw zeroth::ConfigError{
        fmt::format("{}: zeroth.activation_checkpointing.offload is \"nvme\", but with --device cuda train_gpt "
                    "offloads activations "
                    "only to host memory; allowed: \"none\" or \"cpu\"",
                    config.source())};
  }
  if (auto const stages = config.pipeline().stages; asked.offload == zeroth::ActivationOffload::nvme && stages > 1) {
    throw zeroth::ConfigError{fmt::format(
        "{}: zeroth.activation_checkpointing.offload is \"nvme\", but zeroth.mesh.pipeline is {}, and in a pipeline "
        "train_gpt keeps activations in memory; allowed: \"none\" or \"cpu\", or a single stage",
        config.source(), stages)};
  }
}

void expect_tensor_ranks_divide(zeroth::Config const& config, char const* key, std::int64_t whole, char const* of) {
  std::int64_t const ranks = config.tensor_ranks();
  if (whole % ranks == 0) {
    return;
  }
  auto below = ranks, above = ranks;
  while (whole % below != 0) {
    --below;
  }
  while (above < whole && whole % above != 0) {
    ++above;
  }
  throw zeroth::ConfigError{fmt::format("{}: {} is {}, which does not divide the model's {} {}; nearest: {}{}",
                                        config.source(), key, ranks, whole, of, below,
                                        whole % above == 0 ? fmt::format(" or {}", above) : std::string{})};
}

/// Checks that tensor ranks have whole heads and equal numbers of rows.
void expect_divided(zeroth::Config const& config, gpt::Shape const& shape) {
  expect_tensor_ranks_divide(config, "zeroth.mesh.tensor", shape.heads, "heads (--heads)");
  if (config.sequence_parallel()) {
    expect_tensor_ranks_divide(config, "zeroth.mesh.tensor with zeroth.sequence_parallel", shape.context,
                               "tokens of a sequence (--context)");
  }
}

/// Checks that train_gpt's attention, which is causal, can have the layout of the file.
void expect_layout(zeroth::Config const& config, gpt::Options const& options, gpt::Shape const& shape) {
  auto const layout = config.sparse_attention();
  if (!layout) {
    return;
  }
  std::string problems;
  auto const add = [&](std::string_view field, std::string_view why) {
    problems += fmt::format("\n  zeroth.sparse_attention.{}: {}", field, why);
  };
  if (layout->attention == zeroth::AttentionDirection::bidirectional) {
    add("attention", R"("bidirectional", but the attention of train_gpt is causal; allowed: "unidirectional")");
  }
  if (options.device == zeroth::DeviceKind::cuda && layout->block % gpt::gpu::cell_side != 0) {
    add("block",
        fmt::format("{}, but GPU kernels read keys in groups of {}; allowed with --device cuda: multiples of {}",
                    layout->block, gpt::gpu::cell_side, gpt::gpu::cell_side));
  }
  for (auto const& problem : layout->problems(shape.context)) {
    add(problem.field, problem.why);
  }
  if (!problems.empty()) {
    throw zeroth::ConfigError{
        fmt::format("{}: train_gpt with --context {}:{}", config.source(), shape.context, problems)};
  }
}

/// Checks that cuDNN has what the file and the model ask of attention.
void expect_attention(zeroth::Config const& config, gpt::Options const& options, gpt::Shape const& shape) {
  if (options.attention != gpt::AttentionLibrary::cudnn) {
    return;
  }
  auto const refuse = [&](std::string const& why, std::string_view allowed) {
    throw zeroth::ConfigError{
        fmt::format("{}: --attention cudnn: {}; allowed: {}, or --attention own", config.source(), why, allowed)};
  };
  if (auto const dtype = config.compute_dtype(); dtype != zeroth::Dtype::bf16 && dtype != zeroth::Dtype::fp16) {
    refuse(fmt::format("the model computes in {}", zeroth::name_of(dtype)), "bf16 and fp16");
  }
  if (config.sparse_attention()) {
    refuse("zeroth.sparse_attention asks for a layout", "a file without this section");
  }
  if (auto const width = shape.channels / shape.heads; width % gpt::head_unit_of_cudnn != 0) {
    refuse(fmt::format("a head has {} channels (--channels {}, --heads {})", width, shape.channels, shape.heads),
           fmt::format("multiples of {}", gpt::head_unit_of_cudnn));
  }
}

int run(gpt::Options const& options) {
  auto const config = gpt::read_stage_file(options.stage_file);
  expect_activations(config, options);
  auto const shape = gpt::resolve_shape(options.shape, options.init);
  expect_divided(config, shape);
  expect_layout(config, options, shape);
  expect_attention(config, options, shape);
  if (options.plan) {
    print_plan(options, config, shape);
    return 0;
  }
  gpt::Corpus const corpus{options.data};
  gpt::Batches const batches{corpus, shape.context, options.order, options.seed};
  gpt::prepare_checkpoints(options);
  gpt::Task const task{options, config, shape, batches};
  zeroth::LaunchOptions const launching{.thread_ranks = options.ranks.value_or(1),
                                        .transport = options.transport,
                                        .device = options.device,
                                        .share_devices = options.share_devices,
                                        .join_timeout = std::chrono::seconds{options.join_timeout_s},
                                        .stop_grace = std::chrono::seconds{options.grace_s},
                                        .restarts = options.max_restarts};
  std::atomic<bool> stopped{false};
  int const status = zeroth::launch(launching, [&](zeroth::Job& job) {
    if (options.ranks && *options.ranks != job.world()) {
      throw zeroth::ConfigError{fmt::format("--ranks {}: the launcher started {} ranks", *options.ranks, job.world())};
    }
    if (job.rank() == 0) {
      zeroth::write_error(gpt::notes_of(options.stage_file, config));
    }
    auto const end =
        options.device == zeroth::DeviceKind::cuda ? gpt::train_on_gpu(job, task) : gpt::train_on_cpu(job, task);
    if (end == gpt::RunEnd::stopped) {
      stopped = true;
    }
  });
  return status == zeroth::ExitCode::done && stopped ? zeroth::ExitCode::stopped : status;
}

}  // namespace

int main(int argc, char** argv) {
  zeroth::keep_standard_streams();
  std::ostringstream help, complaint;
  auto [options, exit_status] = gpt::parse(argc, argv, help, complaint);
  zeroth::write_output(help.str());
  zeroth::write_error(complaint.str());
  try {
    exit_status = options ? run(*options) : exit_status;
  } catch (std::bad_alloc const&) {
    zeroth::write_error(
        "train_gpt: out of memory before training: the data or the model do not fit into this process\n");
    exit_status = zeroth::ExitCode::failed;
  } catch (std::exception const& error) {
    zeroth::write_error(fmt::format("train_gpt: {}\n", error.what()));
    exit_status = zeroth::exit_code_of(error);
  }
  return zeroth::end_output("train_gpt", exit_status);
}
