// SPDX-License-Identifier: Apache-2.0
/// The table of keys of a stage file. Checks, defaults, derived values, printing, spelling hints and the documentation
/// all follow from it.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

class Values;

using Pair = std::array<double, 2>;

/// An array of a document. check() ensures that its items are whole numbers.
struct Integers {
  Array const* items = nullptr;
  [[nodiscard]] std::vector<std::int64_t> copy() const;
  friend bool operator==(Integers const& left, Integers const& right) { return left.copy() == right.copy(); }
};

/// The units that a file selects. check() ensures that the word is known, and that names are not empty.
struct UnitChoice {
  std::string_view word;         ///< "all", "none" or "every 2"; empty: `names` counts.
  Array const* names = nullptr;  ///< An array of a document.
  [[nodiscard]] std::vector<std::string> copy() const;
  friend bool operator==(UnitChoice const& left, UnitChoice const& right) {
    return left.word == right.word && left.copy() == right.copy();
  }
};
/// Before the number in the word "every 2".
inline constexpr std::string_view every_so_many = "every ";

/// A value, or null. Names have the spelling that Zeroth prints ("float16" is stored as "fp16").
using Value = std::variant<std::monostate, bool, std::int64_t, double, Pair, std::string_view, Integers, UnitChoice>;

enum class Kind : std::uint8_t { boolean, integer, real, pair, name, text, integers, units };

inline constexpr double unbounded = std::numeric_limits<double>::infinity();
struct Range {
  double least = 0, most = unbounded;
  bool above_least = false, below_most = false;  ///< Whether the bound itself is excluded.
};

struct Name {
  std::string_view written, stored;
};

struct Key {
  std::string_view path;
  Kind kind = Kind::boolean;
  Range range = {};                          ///< For integer, real, and each number of a pair or of integers.
  std::span<Name const> names = {};          ///< For a name.
  bool any_case = false;                     ///< Names match in upper and lower case.
  std::string_view foreign_names = {};       ///< Words that DeepSpeed accepts here and Zeroth does not.
  std::string_view removed_names = {};       ///< Words that DeepSpeed accepted until 0.19.
  bool removed = false;                      ///< DeepSpeed accepted the key until 0.19, and rejects a file that has it.
  Value value = {};                          ///< The default; null if there is none.
  Value (*derive)(Values const&) = nullptr;  ///< Computes the default from other values, instead of `value`.
  std::string_view why = {};                 ///< The printed reason for a derived value.
  /// The meaning of "auto". Throws Unknown if the program decides: the value is then open.
  Value (*when_auto)(Values const&) = nullptr;
  bool automatic = false;       ///< "auto" stands for the elements of the model's largest unit.
  std::string_view types = {};  ///< Words: the optimizers or schedulers that have this parameter. Empty: all.
  std::string_view meaning = {};
};

/// Derive a value from others. Each throws Unknown as long as a value that it needs is unknown.
namespace derive {
Value train_batch(Values const& values);
Value micro_batch(Values const& values);
Value accumulation_steps(Values const& values);
Value param_dtype(Values const& values);
Value reduce_dtype(Values const& values);
Value accumulate_dtype(Values const& values);
Value overlap(Values const& values);
Value pipeline(Values const& values);
Value clipping(Values const& values);
Value learning_rate(Values const& values);
Value epsilon(Values const& values);
Value momentum(Values const& values);
Value nesterov(Values const& values);
Value muon_rate(Values const& values);
Value adam_rate(Values const& values);
Value warmup_max(Values const& values);
Value cycle_second(Values const& values);
Value cycle_second_stairs(Values const& values);
Value decay_factor(Values const& values);
Value gradient_dtype(Values const& values);
Value skip_nonfinite(Values const& values);
Value left_open(Values const& values);
Value fp16_where_bf16_decides(Values const& values);
Value bf16_where_fp16_decides(Values const& values);
Value rate_of_the_optimizer(Values const& values);
Value reduce_gradients(Values const& values);
Value reduce_codec(Values const& values);
Value gather_codec(Values const& values);
Value tied_gradients(Values const& values);
Value gradient_slots(Values const& values);
Value group_size(Values const& values);
Value disk_threads(Values const& values);
Value nothing_persists(Values const& values);
Value everything_may_persist(Values const& values);
Value recomputed_units(Values const& values);
Value activation_offload(Values const& values);
}  // namespace derive

inline constexpr double int_limit = std::numeric_limits<int>::max();

inline constexpr Name dtype_names[] = {
    {"fp32", "fp32"},    {"bf16", "bf16"},          {"fp16", "fp16"},          {"float32", "fp32"},
    {"float", "fp32"},   {"torch.float32", "fp32"}, {"bfloat16", "bf16"},      {"torch.bfloat16", "bf16"},
    {"float16", "fp16"}, {"half", "fp16"},          {"torch.float16", "fp16"},
};
inline constexpr std::span<Name const> reduce_dtype_names{dtype_names, 3};  // DeepSpeed accepts only the short ones
inline constexpr Name optimizer_names[] = {
    {"AdamW", "AdamW"}, {"Adam", "Adam"}, {"SGD", "SGD"},   {"Adagrad", "Adagrad"},      {"RMSprop", "RMSprop"},
    {"Lion", "Lion"},   {"Lamb", "Lamb"}, {"Muon", "Muon"}, {"OneBitAdam", "OneBitAdam"}};
inline constexpr Name scheduler_names[] = {{"WarmupLR", "WarmupLR"},
                                           {"WarmupDecayLR", "WarmupDecayLR"},
                                           {"WarmupCosineLR", "WarmupCosineLR"},
                                           {"OneCycle", "OneCycle"},
                                           {"LRRangeTest", "LRRangeTest"},
                                           {"ConstantLR", "ConstantLR"},
                                           {"LinearLR", "LinearLR"},
                                           {"CosineAnnealingLR", "CosineAnnealingLR"},
                                           {"StepLR", "StepLR"},
                                           {"MultiStepLR", "MultiStepLR"},
                                           {"ExponentialLR", "ExponentialLR"}};
inline constexpr Name newton_schulz_names[] = {{"standard", "standard"}, {"gram", "gram"}};
inline constexpr Name adjust_rate_names[] = {{"original", "original"}, {"match_rms_adamw", "match_rms_adamw"}};
inline constexpr Name warmup_names[] = {{"log", "log"}, {"linear", "linear"}};
/// In the order of PipelineSchedule.
inline constexpr Name pipeline_schedule_names[] = {{"gpipe", "gpipe"},
                                                   {"1f1b", "1f1b"},
                                                   {"interleaved_1f1b", "interleaved_1f1b"},
                                                   {"zb_h1", "zb_h1"},
                                                   {"file", "file"}};
inline constexpr Name pipeline_partition_names[] = {
    {"parameters", "parameters"}, {"units", "units"}, {"flops", "flops"}};
inline constexpr Name reduce_gradients_names[] = {{"every_micro_step", "every_micro_step"},
                                                  {"last_micro_step", "last_micro_step"}};
inline constexpr Name reduce_codec_names[] = {
    {"none", "none"}, {"exact", "exact"}, {"int8", "int8"}, {"int4", "int4"}, {"sign", "sign"}};
inline constexpr Name gather_codec_names[] = {{"none", "none"}, {"int8", "int8"}};
inline constexpr Name tied_gradients_names[] = {{"together", "together"}, {"apart", "apart"}};
inline constexpr Name sparse_mode_names[] = {{"dense", "dense"},
                                             {"fixed", "fixed"},
                                             {"variable", "variable"},
                                             {"bigbird", "bigbird"},
                                             {"bslongformer", "bslongformer"},
                                             {"local_sliding_window", "local_sliding_window"}};
inline constexpr Name attention_names[] = {{"unidirectional", "unidirectional"}, {"bidirectional", "bidirectional"}};
inline constexpr Name offload_names[] = {{"none", "none"}, {"cpu", "cpu"}, {"nvme", "nvme"}};
inline constexpr Name offload_update_names[] = {{"device", "device"}, {"host", "host"}};

// clang-format off
inline constexpr Key keys[] = {
  {.path = "train_batch_size", .kind = Kind::integer, .range = {1, int_limit},
   .derive = derive::train_batch, .why = "micro-batch x accumulation x world",
   .meaning = "Samples per update, over all ranks."},
  {.path = "train_micro_batch_size_per_gpu", .kind = Kind::integer, .range = {1, int_limit},
   .derive = derive::micro_batch, .why = "train batch / (accumulation x world)",
   .meaning = "Samples per rank and micro-step."},
  {.path = "gradient_accumulation_steps", .kind = Kind::integer, .range = {1, int_limit},
   .derive = derive::accumulation_steps,
   .why = "train batch / (micro-batch x world) if both are given, else 1",
   .meaning = "Micro-steps per update."},

  {.path = "gradient_clipping", .kind = Kind::real,
   .derive = derive::clipping, .why = "0 for OneBitAdam, else 1",
   .meaning = "Largest global L2 norm of the whole batch's gradient; 0: no clipping."},
  {.path = "steps_per_print", .kind = Kind::integer, .range = {1},
   .meaning = "Rank 0 logs a line every this many steps; without it, none."},
  {.path = "wall_clock_breakdown", .kind = Kind::boolean, .value = false,
   .meaning = "With these lines, or every ten steps, log how the time of steps was spent."},
  {.path = "memory_breakdown", .kind = Kind::boolean, .value = false,
   .meaning = "Log the plan of a rank's memory, and with these lines the peak."},
  {.path = "dump_state", .kind = Kind::boolean, .value = false,
   .meaning = "Log the resolved file."},
  {.path = "tensorboard.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Rank 0 writes event files for TensorBoard, with DeepSpeed's names and more, over the samples trained on."},
  {.path = "tensorboard.output_path", .kind = Kind::text, .value = "",
   .meaning = "Parent folder of `job_name`; empty is the working directory."},
  {.path = "tensorboard.job_name", .kind = Kind::text, .value = "DeepSpeedJobName",
   .meaning = "Folder of the event files, in `output_path`."},
  {.path = "csv_monitor.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Rank 0 writes a CSV file for each name."},
  {.path = "csv_monitor.output_path", .kind = Kind::text, .value = "",
   .meaning = "Parent folder of `job_name`; empty is the working directory."},
  {.path = "csv_monitor.job_name", .kind = Kind::text, .value = "DeepSpeedJobName",
   .meaning = "Folder of the files, in `output_path`."},
  {.path = "wandb.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Rank 0 writes the event files of `tensorboard`, and logs the `wandb sync` command that uploads them."},
  {.path = "wandb.team", .kind = Kind::text,
   .meaning = "wandb's entity, in that command."},
  {.path = "wandb.project", .kind = Kind::text, .value = "deepspeed",
   .meaning = "wandb's project, in that command."},
  {.path = "comms_logger.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Log a table of collectives when the engine is destroyed: counts, bytes, times and bandwidths, by unit. AnyEngine::communication() returns it at any time."},
  {.path = "comms_logger.verbose", .kind = Kind::boolean, .value = false,
   .meaning = "With `enabled`: also log the table every `steps_per_print`, or ten, steps."},
  {.path = "flops_profiler.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Log once a table of a step's floating-point operations and times. Operations follow from the shapes of parameters with two extents or more, and from UnitOptions::rows_per_sample."},
  {.path = "flops_profiler.profile_step", .kind = Kind::integer, .range = {1}, .value = 1,
   .meaning = "The step to profile; 1 means 2, because the first step is the slowest."},
  {.path = "flops_profiler.recompute_fwd_factor", .kind = Kind::real, .value = 0.0,
   .meaning = "Fraction of forward that backward repeats."},
  {.path = "flops_profiler.detailed", .kind = Kind::boolean, .value = true,
   .meaning = "Print a line for each unit."},
  {.path = "flops_profiler.output_file", .kind = Kind::text,
   .meaning = "File for the table; without one, it is logged."},
  {.path = "activation_checkpointing.number_checkpoints", .kind = Kind::integer, .range = {1, int_limit},
   .meaning = "For programs that read Config::activation_checkpointing(): DeepSpeed's key for `zeroth.activation_checkpointing.units` `all`, whatever the number."},
  {.path = "activation_checkpointing.cpu_checkpointing", .kind = Kind::boolean, .value = false,
   .meaning = "For programs that read Config::activation_checkpointing(): DeepSpeed's key for `zeroth.activation_checkpointing.offload` `cpu`."},
  {.path = "communication_data_type", .kind = Kind::name, .names = reduce_dtype_names, .any_case = true,
   .derive = derive::reduce_dtype, .why = "zeroth.gradient_dtype",
   .meaning = "Dtype of gradients in messages."},
  {.path = "data_types.grad_accum_dtype", .kind = Kind::name, .names = dtype_names,
   .derive = derive::accumulate_dtype,
   .why = "bf16 with bf16 masters; else fp32 if a step reduces several times or with zeroth.same_bits_at_any_ranks, the "
          "reduced dtype if it has one micro-step, otherwise none",
   .meaning = "Dtype in which gradients of micro-steps are accumulated: after each reduction, or on the rank before the one reduction of `last_micro_step`. In the latter case it is fp32 or zeroth.gradient_dtype."},
  {.path = "data_types.param_dtype", .kind = Kind::name, .names = dtype_names,
   .derive = derive::param_dtype, .why = "fp16.enabled and bf16.enabled",
   .meaning = "Dtype of the parameters that the math reads. It must be the one that `fp16` and `bf16` enable."},

  {.path = "zero_optimization.stage", .kind = Kind::integer, .range = {0, 3}, .value = 0,
   .when_auto = derive::left_open,
   .meaning = "What is sharded: 0 nothing, 1 optimizer states, 2 also gradients, 3 also parameters."},
  {.path = "zero_optimization.reduce_bucket_size", .kind = Kind::integer, .range = {1}, .value = 500'000'000, .automatic = true,
   .meaning = "Elements of gradients that are reduced together; a larger unit is reduced by itself. At stages 2 and 3 a bucket also has at most half of `zeroth.gradient_slots` units, by default one."},
  {.path = "zero_optimization.overlap_comm", .kind = Kind::boolean,
   .derive = derive::overlap, .why = "true at stage 3 only",
   .meaning = "Overlap communication with compute."},
  {.path = "zero_optimization.stage3_prefetch_bucket_size", .kind = Kind::integer, .value = 50'000'000,
   .automatic = true,
   .meaning = "Stage 3: prefetch units while fewer than this many elements are gathered ahead; 0: no prefetch."},
  {.path = "zero_optimization.stage3_max_live_parameters", .kind = Kind::integer, .value = 1'000'000'000,
   .meaning = "Stage 3: max elements gathered at once. Limits prefetch, with a warning if it leaves none; the unit in use always fits."},
  {.path = "zero_optimization.stage3_param_persistence_threshold", .kind = Kind::integer, .value = 0,
   .when_auto = derive::nothing_persists,
   .meaning = "Stage 3: parameters of at most this many elements stay unsharded on every rank, and are not gathered for use."},
  {.path = "zero_optimization.stage3_model_persistence_threshold", .kind = Kind::integer,
   .value = std::numeric_limits<std::int64_t>::max(), .when_auto = derive::everything_may_persist,
   .meaning = "Stage 3: max elements of all these parameters together, in the order of the model. A parameter that would exceed it is sharded."},
  {.path = "zero_optimization.stage3_gather_16bit_weights_on_model_save", .kind = Kind::boolean, .value = false,
   .meaning = "AnyEngine::save_weights() writes weights in the compute dtype, rounded from the masters, instead of fp32, at every stage."},
  {.path = "zero_optimization.cpu_offload", .kind = Kind::boolean,
   .meaning = "DeepSpeed's former key for `offload_optimizer.device` \"cpu\"."},
  {.path = "zero_optimization.cpu_offload_param", .kind = Kind::boolean,
   .meaning = "DeepSpeed's former key for `offload_param.device` \"cpu\"."},

  {.path = "zero_optimization.zero_hpz_partition_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Stage 3 (ZeRO++ hpZ): ranks per group of consecutive ranks. Each group holds all parameters, so forward and backward gather within it. Gradients and optimizer states stay sharded over all ranks. 1: off."},
  {.path = "zero_optimization.mics_shard_size", .kind = Kind::integer, .range = {-1, int_limit}, .removed = true, .value = -1,
   .meaning = "Stages 1 to 3 (MiCS; FSDP's HSDP): ranks per group of consecutive ranks. Each group holds one full copy of everything that the stage shards. -1: off."},

  {.path = "zero_optimization.offload_optimizer.device", .kind = Kind::name, .names = offload_names, .value = "none",
   .meaning = "Where masters and optimizer states are kept, at every stage. `nvme`, on CPUs: in a file of each rank; tiles of it are in memory while they are updated. `cpu`, on GPUs: the same in pinned host memory; on CPUs it has no effect, since the states are in host memory already."},
  {.path = "zero_optimization.offload_optimizer.nvme_path", .kind = Kind::text,
   .meaning = "With `nvme`: a folder on the disk, created if missing. The files have no names, so no crash leaves one behind."},
  {.path = "zero_optimization.offload_optimizer.ratio", .kind = Kind::real, .range = {0, 1}, .value = 1.0,
   .meaning = "Fraction of the elements whose states are offloaded. Those that are updated first stay in memory."},
  {.path = "zero_optimization.offload_optimizer.buffer_count", .kind = Kind::integer, .range = {1, int_limit}, .value = 4,
   .meaning = "Buffers in memory, each for one state of a tile. If it is too small for reading ahead and writing behind, more are allocated."},
  {.path = "zero_optimization.offload_optimizer.pipeline_read", .kind = Kind::boolean,
   .derive = derive::pipeline, .why = "with cpu or nvme zero_optimization.overlap_comm, else none",
   .meaning = "Read tiles while others are updated, and during forward and backward."},
  {.path = "zero_optimization.offload_optimizer.pipeline_write", .kind = Kind::boolean,
   .derive = derive::pipeline, .why = "with cpu or nvme zero_optimization.overlap_comm, else none",
   .meaning = "Write tiles while others are updated, and during forward and backward."},
  {.path = "zero_optimization.offload_param.device", .kind = Kind::name, .names = offload_names, .value = "none",
   .meaning = "Where sharded parameters are kept. `nvme`, at stage 3: in a file of each rank, from which they are read ahead of their gathers. `cpu` has no effect on CPUs, since they are in host memory already. An engine on a GPU rejects both."},
  {.path = "zero_optimization.offload_param.nvme_path", .kind = Kind::text,
   .meaning = "With `nvme`: a folder on the disk, created if missing. The files have no names, so no crash leaves one behind."},
  {.path = "zero_optimization.offload_param.buffer_count", .kind = Kind::integer, .range = {1, int_limit}, .value = 5,
   .meaning = "With `nvme`: buffers in memory, for what gathers read and updates write. If it is too small for reading ahead and writing behind, more are allocated."},
  {.path = "zero_optimization.offload_param.buffer_size", .kind = Kind::integer, .value = 100'000'000,
   .meaning = "With `nvme`: max elements per buffer, rounded to steps of 2048, and at least one step. A rank's part of a unit is read in pieces of this size."},
  {.path = "zero_optimization.offload_param.max_in_cpu", .kind = Kind::integer, .value = 1'000'000'000,
   .meaning = "With `nvme`: max elements of its shards that a rank keeps in memory, by whole units. Units that forward uses first stay in memory. 0 moves all to disk."},
  {.path = "zero_optimization.sub_group_size", .kind = Kind::integer, .value = 1'000'000'000,
   .meaning = "Max elements per tile of offloaded states, rounded to steps of 2048, and at least one step. It determines how much memory tiles use."},

  {.path = "aio.block_size", .kind = Kind::integer, .range = {4096, int_limit}, .value = 1'048'576,
   .meaning = "With `nvme`: bytes per disk request, a multiple of 4096."},
  {.path = "aio.queue_depth", .kind = Kind::integer, .range = {1, 1024}, .value = 8,
   .meaning = "With `nvme`: concurrent requests per rank, for each of `intra_op_parallelism`."},
  {.path = "aio.intra_op_parallelism", .kind = Kind::integer, .range = {1, 64},
   .derive = derive::disk_threads, .why = "aio.thread_count",
   .meaning = "With `nvme`: multiplies `queue_depth`. Each concurrent request has a thread."},
  {.path = "aio.thread_count", .kind = Kind::integer, .range = {1, 64}, .value = 1,
   .meaning = "DeepSpeed's former name of `intra_op_parallelism`."},

  {.path = "fp16.enabled", .kind = Kind::boolean, .value = false,
   .when_auto = derive::fp16_where_bf16_decides,
   .meaning = "Compute in fp16, with fp32 masters."},
  {.path = "fp16.loss_scale", .kind = Kind::real, .value = 0.0,
   .meaning = "Static loss scale; 0: dynamic."},
  {.path = "fp16.initial_scale_power", .kind = Kind::integer, .range = {0, 126}, .value = 16,
   .meaning = "The dynamic loss scale starts at 2 to this power."},
  {.path = "fp16.loss_scale_window", .kind = Kind::integer, .value = 1000,
   .meaning = "Steps without overflow after which the scale doubles; at least 1 if the scale is dynamic."},
  {.path = "fp16.hysteresis", .kind = Kind::integer, .range = {0, int_limit}, .value = 2,
   .meaning = "Overflows until the scale halves; at least 1 if the scale is dynamic."},
  {.path = "fp16.consecutive_hysteresis", .kind = Kind::boolean, .value = false,
   .meaning = "Every step without overflow restores the hysteresis."},
  {.path = "fp16.min_loss_scale", .kind = Kind::integer, .value = 1,
   .meaning = "Smallest dynamic scale; if the scale is dynamic, at least 1. An overflow at this scale ends training."},

  {.path = "bf16.enabled", .kind = Kind::boolean, .value = false,
   .when_auto = derive::bf16_where_fp16_decides,
   .meaning = "Compute in bf16, with fp32 masters unless `bf16_master_weights_and_grads` is true."},
  {.path = "bf16.check_grad_overflow", .kind = Kind::boolean, .value = true,
   .meaning = "With bf16: skip an update if its gradient is not finite. (fp16 always does; fp32 does so with zeroth.skip_nonfinite.)"},
  {.path = "bf16.bf16_master_weights_and_grads", .kind = Kind::boolean, .value = false,
   .meaning = "The bf16 parameters are the masters, and updates are rounded to them stochastically. All gradients are bf16."},
  {.path = "bf16.bf16_optimizer_states", .kind = Kind::boolean, .value = false,
   .meaning = "With bf16 masters: optimizer states are bf16 too, rounded stochastically."},

  {.path = "optimizer.type", .kind = Kind::name, .names = optimizer_names, .any_case = true,
   .foreign_names = "MuAdam MuAdamW MuSGD", .removed_names = "ZeroOneAdam OneBitLamb",
   .value = "AdamW", .when_auto = derive::left_open,
   .meaning = "Case-insensitive. Adam is AdamW unless `adam_w_mode` is false. Muon updates parameters with ParamOptions::matrix, and AdamW the others: see muon.md. OneBitAdam needs stage 0: see codecs.md."},
  {.path = "optimizer.params.lr", .kind = Kind::real,
   .derive = derive::learning_rate, .why = "0.01 for Adagrad and RMSprop, 0.02 for Muon, else 0.001",
   .when_auto = derive::left_open,
   .meaning = "Learning rate, if no schedule sets it."},
  {.path = "optimizer.params.betas", .kind = Kind::pair, .range = {0, 1, false, true}, .value = Pair{0.9, 0.999},
   .types = "AdamW Adam Lion Muon Lamb OneBitAdam",
   .meaning = "Adam, Lamb, OneBitAdam, and Muon's AdamW: decay rates of the two moments. Lion: weight of the average in the direction, and decay rate of the average."},
  {.path = "optimizer.params.eps", .kind = Kind::real, .range = {0, unbounded, true},
   .derive = derive::epsilon, .why = "1e-10 for Adagrad, else 1e-08", .types = "AdamW Adam Adagrad RMSprop Muon Lamb OneBitAdam",
   .meaning = "Added to the root of the second moment, or of the sum of squares."},
  {.path = "optimizer.params.weight_decay", .kind = Kind::real, .value = 0.0,
   .types = "AdamW Adam SGD Adagrad RMSprop Lion Muon Lamb OneBitAdam",
   .meaning = "Weight decay of parameters without a factor of their own. SGD, Adagrad and RMSprop add it to the gradient, Lamb to the direction."},
  {.path = "optimizer.params.bias_correction", .kind = Kind::boolean, .value = true, .types = "AdamW Adam Lamb OneBitAdam",
   .meaning = "Correct the moments for their start at zero. Lamb corrects the rate."},
  {.path = "optimizer.params.adam_w_mode", .kind = Kind::boolean, .value = true, .types = "AdamW Adam",
   .meaning = "Decoupled weight decay (AdamW). false, for type Adam only, adds it to the gradient."},
  {.path = "optimizer.params.momentum", .kind = Kind::real,
   .derive = derive::momentum, .why = "0.95 for Muon, else 0.0", .types = "SGD RMSprop Muon",
   .meaning = "Decay rate of a buffer of past steps; 0: no buffer, and no memory for it. Muon: decay rate of a mean of gradients, below 1."},
  {.path = "optimizer.params.dampening", .kind = Kind::real, .range = {0, 1}, .value = 0.0, .types = "SGD",
   .meaning = "With momentum: one minus the factor of gradients after the first."},
  {.path = "optimizer.params.nesterov", .kind = Kind::boolean,
   .derive = derive::nesterov, .why = "true for Muon, else false", .types = "SGD Muon",
   .meaning = "Nesterov's momentum."},
  {.path = "optimizer.params.alpha", .kind = Kind::real, .range = {0, 1, false, true}, .value = 0.99, .types = "RMSprop",
   .meaning = "Decay rate of the mean of squares."},
  {.path = "optimizer.params.lr_decay", .kind = Kind::real, .value = 0.0, .types = "Adagrad",
   .meaning = "The rate of update t is divided by 1 + (t - 1) times this."},
  {.path = "optimizer.params.initial_accumulator_value", .kind = Kind::real, .value = 0.0, .types = "Adagrad",
   .meaning = "Initial value of the sum of squares."},
  {.path = "optimizer.params.max_coeff", .kind = Kind::real, .range = {0, unbounded, true}, .value = 10.0, .types = "Lamb",
   .meaning = "Largest trust ratio, by which Lamb multiplies the rate of a parameter: see lamb.md."},
  {.path = "optimizer.params.min_coeff", .kind = Kind::real, .value = 0.01, .types = "Lamb",
   .meaning = "Smallest trust ratio; at most max_coeff."},
  {.path = "optimizer.params.freeze_step", .kind = Kind::integer, .range = {1, int_limit}, .value = 100'000, .types = "OneBitAdam",
   .meaning = "Steps of AdamW with whole gradients, before the second moment rests and first moments travel as signs: see codecs.md."},
  {.path = "optimizer.params.muon_lr", .kind = Kind::real,
   .derive = derive::muon_rate, .why = "optimizer.params.lr", .types = "Muon",
   .meaning = "Learning rate of Muon's matrices. A schedule sets `lr`, and this keeps its ratio to it."},
  {.path = "optimizer.params.adam_lr", .kind = Kind::real,
   .derive = derive::adam_rate, .why = "optimizer.params.lr if the file has it, else 0.0003", .types = "Muon",
   .meaning = "Learning rate of the other parameters, with AdamW. A schedule sets `lr`, and this keeps its ratio to it."},
  {.path = "optimizer.params.ns_steps", .kind = Kind::integer, .range = {1, 99}, .value = 5, .types = "Muon",
   .meaning = "Iterations of Newton and Schulz."},
  {.path = "optimizer.params.ns_method", .kind = Kind::name, .names = newton_schulz_names,
   .value = "standard", .types = "Muon",
   .meaning = "The order of their products. `gram`, DeepSpeed's default, multiplies the smaller square in fp16: fewer operations where matrices are not square."},
  {.path = "optimizer.params.adjust_lr_fn", .kind = Kind::name, .names = adjust_rate_names, .value = "original",
   .types = "Muon",
   .meaning = "Factor of a matrix's step. `original`: the root of rows / columns, at least 1. `match_rms_adamw`: 0.2 times the root of the larger extent."},

  {.path = "scheduler.type", .kind = Kind::name, .names = scheduler_names,
   .foreign_names = "LambdaLR MultiplicativeLR SequentialLR PolynomialLR CosineAnnealingWarmRestarts ChainedScheduler CyclicLR OneCycleLR ReduceLROnPlateau SWALR",
   .when_auto = derive::left_open,
   .meaning = "Learning-rate schedule; without one the rate is constant. Skipped updates do not count. Those from ConstantLR on are torch.optim.lr_scheduler's."},
  {.path = "scheduler.params.warmup_min_lr", .kind = Kind::real, .value = 0.0,
   .types = "WarmupLR WarmupDecayLR",
   .meaning = "Rate at the start of the warm-up, and at the end of WarmupDecayLR."},
  {.path = "scheduler.params.warmup_max_lr", .kind = Kind::real,
   .derive = derive::warmup_max, .why = "optimizer.params.lr for WarmupLR, 0.001 for WarmupDecayLR",
   .when_auto = derive::rate_of_the_optimizer,
   .types = "WarmupLR WarmupDecayLR",
   .meaning = "Rate at the end of the warm-up."},
  {.path = "scheduler.params.warmup_num_steps", .kind = Kind::integer, .range = {1}, .value = 1000,
   .when_auto = derive::left_open,
   .types = "WarmupLR WarmupDecayLR WarmupCosineLR",
   .meaning = "Updates of the warm-up; 1 means 2."},
  {.path = "scheduler.params.warmup_type", .kind = Kind::name, .names = warmup_names, .value = "log",
   .types = "WarmupLR WarmupDecayLR WarmupCosineLR",
   .meaning = "Shape of the warm-up. In either shape the first two updates use its initial rate, by default 0, as in DeepSpeed."},
  {.path = "scheduler.params.total_num_steps", .kind = Kind::integer, .range = {1},
   .when_auto = derive::left_open,
   .types = "WarmupDecayLR WarmupCosineLR",
   .meaning = "Updates until the rate reaches its final value. Required."},
  {.path = "scheduler.params.warmup_min_ratio", .kind = Kind::real, .value = 0.0,
   .types = "WarmupCosineLR",
   .meaning = "Rate at the start of the warm-up, as a fraction of optimizer.params.lr."},
  {.path = "scheduler.params.cos_min_ratio", .kind = Kind::real, .value = 1e-4,
   .types = "WarmupCosineLR",
   .meaning = "Rate at the end of the cosine, as a fraction of optimizer.params.lr."},

  {.path = "scheduler.params.cycle_min_lr", .kind = Kind::real, .types = "OneCycle",
   .meaning = "Rate at the start and end of the cycle. Required."},
  {.path = "scheduler.params.cycle_max_lr", .kind = Kind::real, .types = "OneCycle",
   .meaning = "Rate in the middle of the cycle. Required."},
  {.path = "scheduler.params.cycle_first_step_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 2000, .types = "OneCycle",
   .meaning = "Updates over which the rate rises."},
  {.path = "scheduler.params.cycle_second_step_size", .kind = Kind::integer, .range = {0, int_limit},
   .derive = derive::cycle_second, .why = "cycle_first_step_size", .types = "OneCycle",
   .meaning = "Updates over which the rate falls."},
  {.path = "scheduler.params.cycle_first_stair_count", .kind = Kind::integer, .range = {0, int_limit}, .value = 0, .types = "OneCycle",
   .meaning = "Number of steps in which the rate rises; 0: continuously."},
  {.path = "scheduler.params.cycle_second_stair_count", .kind = Kind::integer, .range = {0, int_limit},
   .derive = derive::cycle_second_stairs, .why = "cycle_first_stair_count", .types = "OneCycle",
   .meaning = "Number of steps in which the rate falls; 0: continuously."},
  {.path = "scheduler.params.decay_step_size", .kind = Kind::integer, .range = {0, int_limit}, .value = 0, .types = "OneCycle",
   .meaning = "Updates per interval after the cycle. After n intervals the rate is divided by 1 + n x `decay_lr_rate`. 0: no decay."},
  {.path = "scheduler.params.decay_lr_rate", .kind = Kind::real, .value = 0.0, .types = "OneCycle",
   .meaning = "See `decay_step_size`."},
  {.path = "scheduler.params.cycle_momentum", .kind = Kind::boolean, .value = true, .types = "OneCycle",
   .meaning = "Also cycle the first of an optimizer's betas. Zeroth does not support this: with AdamW, Adam or Lion it must be false."},
  {.path = "scheduler.params.cycle_min_mom", .kind = Kind::real, .value = 0.8, .types = "OneCycle",
   .meaning = "See `cycle_momentum`."},
  {.path = "scheduler.params.cycle_max_mom", .kind = Kind::real, .value = 0.9, .types = "OneCycle",
   .meaning = "See `cycle_momentum`."},
  {.path = "scheduler.params.decay_mom_rate", .kind = Kind::real, .value = 0.0, .types = "OneCycle",
   .meaning = "See `cycle_momentum`."},
  {.path = "scheduler.params.lr_range_test_min_lr", .kind = Kind::real, .value = 1e-3, .types = "LRRangeTest",
   .meaning = "Rate of the first update."},
  {.path = "scheduler.params.lr_range_test_step_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 2000, .types = "LRRangeTest",
   .meaning = "Updates per interval."},
  {.path = "scheduler.params.lr_range_test_step_rate", .kind = Kind::real, .value = 1.0, .types = "LRRangeTest",
   .meaning = "The rate is multiplied by 1 + this times the number of intervals so far."},
  {.path = "scheduler.params.lr_range_test_staircase", .kind = Kind::boolean, .value = false, .types = "LRRangeTest",
   .meaning = "Count whole intervals only."},
  {.path = "scheduler.params.factor", .kind = Kind::real, .range = {.most = 1, .above_least = true}, .value = 1.0 / 3, .types = "ConstantLR",
   .meaning = "Rate of the first `total_iters` updates, as a fraction of optimizer.params.lr. Later updates use the whole rate."},
  {.path = "scheduler.params.start_factor", .kind = Kind::real, .range = {.most = 1, .above_least = true}, .value = 1.0 / 3, .types = "LinearLR",
   .meaning = "Rate of the first update, as a fraction of optimizer.params.lr."},
  {.path = "scheduler.params.end_factor", .kind = Kind::real, .range = {0, 1}, .value = 1.0, .types = "LinearLR",
   .meaning = "Rate after `total_iters` updates, as a fraction of optimizer.params.lr."},
  {.path = "scheduler.params.total_iters", .kind = Kind::integer, .range = {1, int_limit}, .value = 5, .types = "ConstantLR LinearLR",
   .meaning = "Updates until the rate has its final value."},
  {.path = "scheduler.params.T_max", .kind = Kind::integer, .range = {1, int_limit}, .types = "CosineAnnealingLR",
   .meaning = "Updates until the rate is `eta_min`. The next `T_max` updates raise it to optimizer.params.lr again, and so on. Required."},
  {.path = "scheduler.params.eta_min", .kind = Kind::real, .value = 0.0, .types = "CosineAnnealingLR",
   .meaning = "Lowest rate."},
  {.path = "scheduler.params.step_size", .kind = Kind::integer, .range = {1, int_limit}, .types = "StepLR",
   .meaning = "The rate is multiplied by `gamma` after each this many updates. Required."},
  {.path = "scheduler.params.milestones", .kind = Kind::integers, .range = {0, int_limit}, .types = "MultiStepLR",
   .meaning = "The rate is multiplied by `gamma` after each of these numbers of updates: at most 16, in any order. Required."},
  {.path = "scheduler.params.gamma", .kind = Kind::real,
   .derive = derive::decay_factor, .why = "0.1 for StepLR and MultiStepLR", .types = "StepLR MultiStepLR ExponentialLR",
   .meaning = "Factor of the rate; ExponentialLR multiplies by it after each update. Required for ExponentialLR."},

  {.path = "zeroth.gradient_dtype", .kind = Kind::name, .names = dtype_names,
   .derive = derive::gradient_dtype, .why = "the compute dtype",
   .meaning = "Dtype of the memory that backward writes: fp32 or the compute dtype."},
  {.path = "zeroth.reduce_gradients", .kind = Kind::name, .names = reduce_gradients_names,
   .derive = derive::reduce_gradients,
   .why = "last_micro_step at stages 0 and 1, every_micro_step at stages 2 and 3 and with zeroth.same_bits_at_any_ranks",
   .meaning = "When gradients leave a rank: after every micro-step, or once, after they were accumulated on the rank. This changes roundings: with several micro-steps set it, and every stage trains the same bits."},
  {.path = "zeroth.reduce_codec", .kind = Kind::name, .names = reduce_codec_names,
   .derive = derive::reduce_codec, .why = "int4 with zero_optimization.zero_quantized_gradients, else none",
   .meaning = "How gradients are encoded while ranks reduce them; see docs/codecs.md. `none`: the transport adds them up. `exact`: they travel as they are, and each rank adds up what it receives in rank order, which gives NCCL the bits of other transports. `int8`, `int4`: a scale for each block of 128 elements and an integer for each element. `sign`: the sign of each element and one magnitude for each block; what that loses is added to the next gradient. Stages 0 and 1 only. Every stage trains the same bits."},
  {.path = "zero_optimization.zero_quantized_gradients", .kind = Kind::boolean, .value = false,
   .meaning = "DeepSpeed's name of `zeroth.reduce_codec` `int4`, here at every stage and with or without groups."},
  {.path = "zeroth.gather_codec", .kind = Kind::name, .names = gather_codec_names,
   .derive = derive::gather_codec, .why = "int8 with zero_optimization.zero_quantized_weights, else none",
   .meaning = "How parameters that are trained are rounded after an update, at every stage, and encoded while they travel; see docs/codecs.md. `int8`: an integer for each element and a power of two for each block of 128 elements. Needs fp32 masters, which stay exact."},
  {.path = "zero_optimization.zero_quantized_weights", .kind = Kind::boolean, .value = false,
   .meaning = "DeepSpeed's name of `zeroth.gather_codec` `int8`."},
  {.path = "zeroth.tied_gradients", .kind = Kind::name, .names = tied_gradients_names,
   .derive = derive::tied_gradients, .why = "apart with zeroth.mesh.pipeline above 1, else together",
   .meaning = "How gradients are summed for a parameter that several units use. `together`: in one buffer, in the order in which they occur. `apart`: each unit's by themselves over micro-steps and ranks, and then these sums in unit order. `apart` gives the same bits in a pipeline of any number of stages, and without one. Chunks of a pipeline have no common buffer."},
  {.path = "zeroth.mesh.pipeline", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Number of pipeline stages; each has an equal share of consecutive ranks: see zeroth::Mesh. Whatever depends on the number of ranks, such as batch sizes, counts the ranks of a stage."},
  {.path = "zeroth.mesh.tensor", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Number of consecutive ranks that divide parameters by ParamOptions::cut among themselves, and see the same samples: see zeroth::Mesh. Whatever depends on the number of ranks, such as batch sizes, counts the ranks of a stage with the same part."},
  {.path = "zeroth.sequence_parallel", .kind = Kind::boolean, .value = false,
   .meaning = "Programs that divide layers by zeroth::TensorParallel also divide the rows between layers among the ranks of `zeroth.mesh.tensor`. Sets TensorParallelOptions::sequence."},
  {.path = "tensor_parallel.autotp_size", .kind = Kind::integer, .range = {0, int_limit}, .value = 0,
   .meaning = "DeepSpeed's name of `zeroth.mesh.tensor`; both must be equal. 0: not set."},
  {.path = "tensor_parallel.tensor_parallel.tp_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "DeepSpeed's other name of `zeroth.mesh.tensor`; both must be equal. 1: not set."},
  {.path = "zeroth.pipeline.schedule", .kind = Kind::name, .names = pipeline_schedule_names, .value = "1f1b",
   .meaning = "With `zeroth.mesh.pipeline`: the order in which a stage runs forward and backward of its micro-steps. `gpipe` runs all forward passes first. `1f1b` holds the activations of no more micro-steps than there are stages. `interleaved_1f1b` does that with several chunks per stage. `zb_h1` divides backward, and fills waits with gradients of weights. `file` uses the lists of `zeroth.pipeline.schedule_file`. All give the same bits. A single stage runs its micro-steps one after the other."},
  {.path = "zeroth.pipeline.schedule_file", .kind = Kind::text,
   .meaning = "With the schedule `file`: a table with a line for each stage and an action in each cell: the chunk, F, B, I or W (forward, backward, backward by inputs and by weights), and the micro-step, such as `0F3`. Empty cells are skipped, so CSV files of PyTorch's pipelines can be read."},
  {.path = "zeroth.pipeline.chunks", .kind = Kind::integer, .range = {1, 1024}, .value = 1,
   .meaning = "With `interleaved_1f1b` or `file`: chunks of consecutive units per stage. Chunk c belongs to stage c % `zeroth.mesh.pipeline`."},
  {.path = "zeroth.pipeline.partition", .kind = Kind::name, .names = pipeline_partition_names, .value = "parameters",
   .meaning = "The measure by which the largest chunk is made as small as possible: elements of parameters, units, or flops as `flops_profiler` counts them."},
  {.path = "zeroth.pipeline.first_units", .kind = Kind::integers, .range = {0, int_limit},
   .meaning = "Replaces `zeroth.pipeline.partition`: the first unit of each chunk, such as `[0, 7, 13]`. Units count from 0, in the order of the model."},
  {.path = "zeroth.activation_checkpointing.units", .kind = Kind::units,
   .derive = derive::recomputed_units, .why = "all with activation_checkpointing.number_checkpoints, else none",
   .meaning = "For programs that use an ActivationPolicy: the units that are recomputed: of these only the input is kept, and backward runs their forward again. `every 2`: the second unit of the model, the fourth, and so on. In train_gpt only blocks are recomputed. All give the same bits: see activations.md."},
  {.path = "zeroth.activation_checkpointing.offload", .kind = Kind::name, .names = offload_names,
   .derive = derive::activation_offload, .why = "cpu with activation_checkpointing.cpu_checkpointing, else none",
   .meaning = "Where the kept inputs of recomputed units wait for backward. `none`: in the device's memory. `cpu`: in host memory; on CPUs that is the device's. `nvme`: in a file in `nvme_path`."},
  {.path = "zeroth.activation_checkpointing.nvme_path", .kind = Kind::text,
   .meaning = "The folder for offload to `nvme`, on a local disk. Each rank has an unnamed file there."},
  {.path = "zeroth.sparse_attention.mode", .kind = Kind::name, .names = sparse_mode_names,
   .meaning = "For programs that read Config::sparse_attention(): the rule by which each block of queries reads some blocks of keys: see sparse_attention.md. Without it attention is dense. The keys are those of DeepSpeed's former `sparse_attention`."},
  {.path = "zeroth.sparse_attention.block", .kind = Kind::integer, .range = {1, int_limit}, .value = 16,
   .meaning = "Tokens per block. It divides the context."},
  {.path = "zeroth.sparse_attention.attention", .kind = Kind::name, .names = attention_names, .value = "bidirectional",
   .meaning = "`unidirectional`: queries read no later keys. train_gpt accepts only this."},
  {.path = "zeroth.sparse_attention.different_layout_per_head", .kind = Kind::boolean, .value = false,
   .meaning = "All modes but `dense` and `local_sliding_window`: each head has random blocks and a global pattern of its own; otherwise all have the first head's."},
  {.path = "zeroth.sparse_attention.num_local_blocks", .kind = Kind::integer, .range = {1, int_limit}, .value = 4,
   .meaning = "`fixed`: blocks per window."},
  {.path = "zeroth.sparse_attention.num_global_blocks", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Blocks that all queries read. `fixed`: the last ones of each window; must divide `num_local_blocks`. `bigbird`: the first ones of the context."},
  {.path = "zeroth.sparse_attention.num_different_global_patterns", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "`fixed` with `different_layout_per_head`: heads take turns with this many choices of a window's global blocks; at most `num_local_blocks` / `num_global_blocks`."},
  {.path = "zeroth.sparse_attention.horizontal_global_attention", .kind = Kind::boolean, .value = false,
   .meaning = "`fixed` and `variable`, bidirectional only: queries in global blocks read all keys."},
  {.path = "zeroth.sparse_attention.num_random_blocks", .kind = Kind::integer, .range = {0, int_limit}, .value = 0,
   .meaning = "`variable` and `bigbird`: random blocks of keys per block of queries."},
  {.path = "zeroth.sparse_attention.num_sliding_window_blocks", .kind = Kind::integer, .range = {1, int_limit}, .value = 3,
   .meaning = "`bigbird`, `bslongformer` and `local_sliding_window`: half of it, rounded down, is read on each side of a block."},
  {.path = "zeroth.sparse_attention.local_window_blocks", .kind = Kind::integers, .range = {1, int_limit},
   .meaning = "`variable`: blocks of the first windows, such as `[2, 4]`; the last size repeats. null: `[4]`."},
  {.path = "zeroth.sparse_attention.global_block_indices", .kind = Kind::integers, .range = {0, int_limit},
   .meaning = "`variable` and `bslongformer`: increasing indices of the blocks that all queries read. Those beyond the context have no effect. null: `[0]`."},
  {.path = "zeroth.sparse_attention.global_block_end_indices", .kind = Kind::integers, .range = {0, int_limit},
   .meaning = "For each of `global_block_indices`, the end of a range of global blocks that begins there. null: ranges of one block."},
  {.path = "zeroth.same_bits_at_any_ranks", .kind = Kind::boolean, .value = false,
   .meaning = "The same global batch gives the same losses and weights on any number of ranks: micro-steps are added to fp32 sums one after another, in the order of the batch. Settings that prevent this are rejected. With 16-bit gradients and one micro-step it costs 4 bytes for each element that a rank updates."},
  {.path = "zeroth.replay_every", .kind = Kind::integer, .range = {0, int_limit}, .value = 0,
   .meaning = "In every step whose number is a multiple of this, the first micro-step runs twice on each rank. If the results differ, the job ends before the update, naming rank, unit and parameter. This finds faulty processors and memory, and programs that are not deterministic. Costs one micro-step in this many steps. 0: off."},
  {.path = "zeroth.delayed_update", .kind = Kind::boolean, .value = false,
   .meaning = "Reduce gradients and update parameters while the next step's passes run, which read what the step before the last one left; see docs/delayed_update.md. Stages 0 to 2. Needs memory for the gradients that the optimizer reads once more. Changes the training, in the same way at each of these stages."},
  {.path = "zeroth.parameter_server.servers", .kind = Kind::integer, .range = {0, int_limit}, .value = 0,
   .meaning = "The last this many ranks of a job are parameter servers, which hold equal parts of masters and optimizer states; the others are workers, and batch sizes count them alone. See docs/parameter_server.md. 0: no servers."},
  {.path = "zeroth.parameter_server.staleness", .kind = Kind::integer, .range = {0, int_limit}, .value = 0,
   .meaning = "How many steps a worker may be ahead of the slowest one. 0: servers add up the gradients of all workers and update once per step, with the bits of stage 1 on as many ranks as there are workers. Above 0: each worker's gradients are an update of their own, as soon as they arrive; not reproducible, and without gradient_clipping."},
  {.path = "zeroth.parameter_server.colocated", .kind = Kind::boolean, .value = false,
   .meaning = "Servers are threads of the workers' processes. Only false is possible: start servers as more ranks on the workers' machines."},
  {.path = "zeroth.gradient_slots", .kind = Kind::integer, .range = {1, int_limit},
   .derive = derive::gradient_slots, .why = "2 with overlap_comm, 1 without",
   .meaning = "Stages 2 and 3: units whose full gradients are held at once."},
  {.path = "zeroth.two_level_sums", .kind = Kind::boolean, .value = false,
   .meaning = "Gradients are summed within each group, then over groups, and rounded both times. This needs fewer steps on many machines, rounds differently from a single sum, and is the same at every stage."},
  {.path = "zeroth.group_size", .kind = Kind::integer, .range = {1, int_limit},
   .derive = derive::group_size, .why = "zero_hpz_partition_size or mics_shard_size, else none",
   .meaning = "With `two_level_sums`, if neither of DeepSpeed's two keys sets it: consecutive ranks per group."},
  {.path = "zeroth.offload_update", .kind = Kind::name, .names = offload_update_names, .value = "device",
   .meaning = "With `offload_optimizer` `cpu`, on GPUs: where states in host memory are updated. `device`: on the GPU, which reads and writes them in tiles. `host`, as in DeepSpeed: on the CPU, which receives gradients and returns parameters. Both give the same bits."},
  {.path = "zeroth.offload_update_threads", .kind = Kind::integer, .range = {1, 1024}, .value = 1,
   .meaning = "With `offload_update` `host`: threads per rank for the update."},
  {.path = "zeroth.skip_nonfinite", .kind = Kind::boolean,
   .derive = derive::skip_nonfinite, .why = "true with fp16, bf16.check_grad_overflow with bf16, false in fp32",
   .meaning = "Skip an update if its gradient is not finite, or so large that its norm is not. Must be true with fp16, whose loss scale depends on it."},
  {.path = "zeroth.ema.decay", .kind = Kind::real, .range = {0, 1, false, true},
   .meaning = "Keep an exponential moving average of the parameters, in fp32, sharded and saved like the optimizer's states: after each update the average moves 1 - `decay` of the way to the new parameters; see docs/ema.md. Without this key none is kept."},
  {.path = "zeroth.stochastic_rounding_seed", .kind = Kind::integer, .value = 0,
   .meaning = "With bf16 masters: seed of the random bits, which also depend on the number of the update and on the element."},
  {.path = "zeroth.strict", .kind = Kind::boolean, .value = false,
   .meaning = "Treat notes, about keys without effect here and unknown keys, as errors."},
  {.path = "zeroth.timeout_ms", .kind = Kind::integer, .range = {1, 31'536'000'000.0}, .value = 600'000,
   .meaning = "Milliseconds to wait for a rank before the job ends."},
  {.path = "zeroth.check", .kind = Kind::boolean, .value = false,
   .meaning = "Compare what ranks are about to communicate in every step, not only in the first two; and every 100 steps, waiting, all that they hold unsharded. On a mesh with tensor ranks, compare gradients as well, in the first two steps and every 100th. An engine rejects concurrent calls of two threads."},
  {.path = "zeroth.single_communicator", .kind = Kind::boolean, .value = false,
   .meaning = "Gathers and reductions take turns on one communicator, instead of having one each. With NCCL this needs less GPU memory, and the two do not overlap."},
  {.path = "zeroth.copy_engine_gather", .kind = Kind::boolean, .value = false,
   .meaning = "With NCCL: gathers within a machine use copy engines, if NCCL can, which leaves all multiprocessors to the math."},
  {.path = "zeroth.register_memory", .kind = Kind::boolean, .value = true,
   .meaning = "Register communication buffers if that helps: with NCCL as windows; with tcp among the ranks of a machine, which map them. Set it to false if registration fails."},
  {.path = "zeroth.poison", .kind = Kind::boolean, .value = false,
   .meaning = "Fill memory with NaN when its contents are no longer valid. Guards hand out copies of parameters and gradients, which become NaN when the guard ends. This needs memory for both, unsharded, at every stage."},
  {.path = "zeroth.flight_recorder", .kind = Kind::text, .value = "",
   .meaning = "Folder for the record of the last collectives, written on a failure; empty is the working directory."},
  {.path = "zeroth.checkpoint.buffer_bytes", .kind = Kind::integer, .value = 0,
   .meaning = "0: states are written without a copy, so an update waits until what it changes has been written; 1 MiB of host memory then holds small and unaligned pieces, and states of a GPU go through 16 MiB. 8388608 or more: host memory on every rank for copies on their way to the disk. With as much as a rank's share of the states, an update never waits for the disk."},
  {.path = "zeroth.checkpoint.keep", .kind = Kind::integer, .range = {0}, .value = 0,
   .meaning = "Number of newest checkpoints to keep in a folder; 0 keeps all. An argument of save() overrides it."},
  {.path = "zeroth.checkpoint.direct_io", .kind = Kind::boolean, .value = true,
   .meaning = "Bypass the system's file cache for checkpoints (O_DIRECT), if the file system supports it."},
};
// clang-format on

inline constexpr std::size_t key_count = std::size(keys);

/// Another spelling of a key or section.
struct Alias {
  std::string_view written, path;
};
inline constexpr Alias aliases[] = {
    {"bfloat16", "bf16"},
    {"tensor_parallel.tp", "tensor_parallel.tensor_parallel"},
    {"zero_optimization.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size"},
    {"zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters"},
    {"zero_optimization.max_reuse_distance", "zero_optimization.stage3_max_reuse_distance"},
    {"zero_optimization.param_persistence_threshold", "zero_optimization.stage3_param_persistence_threshold"},
    {"zero_optimization.model_persistence_threshold", "zero_optimization.stage3_model_persistence_threshold"},
    {"zero_optimization.module_granularity_threshold", "zero_optimization.stage3_module_granularity_threshold"},
    {"zero_optimization.use_all_reduce_for_fetch_params", "zero_optimization.stage3_use_all_reduce_for_fetch_params"},
    {"zero_optimization.allgather_sequential", "zero_optimization.stage3_allgather_sequential"},
    {"zero_optimization.gather_16bit_weights_on_model_save",
     "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
     "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
};

/// Whether `list`, words with one space between them, has `word`.
[[nodiscard]] constexpr bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    auto const end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) {
      return true;
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

[[nodiscard]] constexpr std::optional<std::size_t> find_key(std::string_view path) {
  auto const* const found = std::ranges::find(keys, path, &Key::path);
  return found == std::end(keys) ? std::nullopt : std::optional<std::size_t>{found - std::begin(keys)};
}

/// A path of the table, as a template argument. A misspelled path does not compile, and the path determines the value's
/// type.
template <std::size_t N>
struct Path {
  char text[N] = {};
  consteval Path(char const (&literal)[N]) { std::copy_n(literal, N, text); }  // NOLINT: a literal is a path
  [[nodiscard]] constexpr std::string_view view() const { return {text, N - 1}; }
};
template <Path P>
inline constexpr std::size_t index_of = find_key(P.view()).value();

[[nodiscard]] std::string allowed(Key const& key);      ///< "an integer from 0 to 3"
[[nodiscard]] std::string to_text(Value const& value);  ///< In the syntax of the file.

}  // namespace zeroth::config
