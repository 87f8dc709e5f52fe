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

/// A value, or null. Names have the spelling that Zeroth prints ("float16" is stored as "fp16").
using Value = std::variant<std::monostate, bool, std::int64_t, double, Pair, std::string_view, Integers>;

enum class Kind : std::uint8_t { boolean, integer, real, pair, name, text, integers };

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
  std::string_view why = {};                 ///< What `derive` does, as printed text.
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
Value learning_rate(Values const& values);
Value epsilon(Values const& values);
Value warmup_max(Values const& values);
Value cycle_second(Values const& values);
Value cycle_second_stairs(Values const& values);
Value gradient_dtype(Values const& values);
Value skip_nonfinite(Values const& values);
Value left_open(Values const& values);
Value fp16_where_bf16_decides(Values const& values);
Value bf16_where_fp16_decides(Values const& values);
Value rate_of_the_optimizer(Values const& values);
Value reduce_gradients(Values const& values);
Value tied_gradients(Values const& values);
Value gradient_slots(Values const& values);
Value group_size(Values const& values);
Value disk_threads(Values const& values);
Value nothing_persists(Values const& values);
Value everything_may_persist(Values const& values);
}  // namespace derive

inline constexpr double int_limit = std::numeric_limits<int>::max();

inline constexpr Name dtype_names[] = {
    {"fp32", "fp32"},    {"bf16", "bf16"},          {"fp16", "fp16"},          {"float32", "fp32"},
    {"float", "fp32"},   {"torch.float32", "fp32"}, {"bfloat16", "bf16"},      {"torch.bfloat16", "bf16"},
    {"float16", "fp16"}, {"half", "fp16"},          {"torch.float16", "fp16"},
};
inline constexpr std::span<Name const> reduce_dtype_names{dtype_names, 3};  // DeepSpeed accepts only the short ones
inline constexpr Name optimizer_names[] = {{"AdamW", "AdamW"},     {"Adam", "Adam"},       {"SGD", "SGD"},
                                           {"Adagrad", "Adagrad"}, {"RMSprop", "RMSprop"}, {"Lion", "Lion"}};
inline constexpr Name scheduler_names[] = {{"WarmupLR", "WarmupLR"},
                                           {"WarmupDecayLR", "WarmupDecayLR"},
                                           {"WarmupCosineLR", "WarmupCosineLR"},
                                           {"OneCycle", "OneCycle"},
                                           {"LRRangeTest", "LRRangeTest"}};
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
inline constexpr Name tied_gradients_names[] = {{"together", "together"}, {"apart", "apart"}};
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

  {.path = "gradient_clipping", .kind = Kind::real, .value = 1.0,
   .meaning = "Largest global L2 norm of the gradient of the whole batch; 0 is no clipping."},
  {.path = "steps_per_print", .kind = Kind::integer, .range = {1},
   .meaning = "Rank 0 logs a line every so many steps; without it, none."},
  {.path = "wall_clock_breakdown", .kind = Kind::boolean, .value = false,
   .meaning = "With these lines, or every ten steps, the log says where the time of steps went."},
  {.path = "memory_breakdown", .kind = Kind::boolean, .value = false,
   .meaning = "The log has the plan of a rank's memory, and with these lines what was held at most."},
  {.path = "dump_state", .kind = Kind::boolean, .value = false,
   .meaning = "The log has the resolved file."},
  {.path = "tensorboard.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Rank 0 writes event files that TensorBoard opens: DeepSpeed's names over the samples trained on, and more."},
  {.path = "tensorboard.output_path", .kind = Kind::text, .value = "",
   .meaning = "Folder for `job_name`'s; empty is the working folder."},
  {.path = "tensorboard.job_name", .kind = Kind::text, .value = "DeepSpeedJobName",
   .meaning = "Folder of the event files, under `output_path`."},
  {.path = "csv_monitor.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Rank 0 writes a file of comma-separated values for each name."},
  {.path = "csv_monitor.output_path", .kind = Kind::text, .value = "",
   .meaning = "Folder for `job_name`'s; empty is the working folder."},
  {.path = "csv_monitor.job_name", .kind = Kind::text, .value = "DeepSpeedJobName",
   .meaning = "Folder of the files, under `output_path`."},
  {.path = "wandb.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Rank 0 writes the event files of `tensorboard`, and the log has the command of `wandb sync` that uploads them."},
  {.path = "wandb.team", .kind = Kind::text,
   .meaning = "wandb's entity, in that command."},
  {.path = "wandb.project", .kind = Kind::text, .value = "deepspeed",
   .meaning = "wandb's project, in that command."},
  {.path = "comms_logger.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "The log has a table of collectives at the engine's end: numbers, bytes, times and bandwidths, by unit. AnyEngine::communication() has it at any time."},
  {.path = "comms_logger.verbose", .kind = Kind::boolean, .value = false,
   .meaning = "With `enabled`: the table also every `steps_per_print`, or ten, steps."},
  {.path = "flops_profiler.enabled", .kind = Kind::boolean, .value = false,
   .meaning = "Once, a table of the floating-point operations of a step, from the shapes of parameters with two extents or more and UnitOptions::rows_per_sample, and of its times."},
  {.path = "flops_profiler.profile_step", .kind = Kind::integer, .range = {1}, .value = 1,
   .meaning = "Which step; 1 is taken as 2, because the first one is slower than all others."},
  {.path = "flops_profiler.recompute_fwd_factor", .kind = Kind::real, .value = 0.0,
   .meaning = "The part of forward that backward does again."},
  {.path = "flops_profiler.detailed", .kind = Kind::boolean, .value = true,
   .meaning = "A line for each unit."},
  {.path = "flops_profiler.output_file", .kind = Kind::text,
   .meaning = "File for the table; without one, the log has it."},
  {.path = "activation_checkpointing.number_checkpoints", .kind = Kind::integer, .range = {1, int_limit},
   .meaning = "For programs, which ask Config::activation_checkpointing(): how many activations to keep, and to compute the others again in backward. train_gpt takes it as `--recompute`: it keeps the inputs of its blocks."},
  {.path = "activation_checkpointing.cpu_checkpointing", .kind = Kind::boolean, .value = false,
   .meaning = "For programs, likewise: activations are kept in the host's memory. train_gpt does so on the CPU, and refuses it on GPUs."},
  {.path = "communication_data_type", .kind = Kind::name, .names = reduce_dtype_names, .any_case = true,
   .derive = derive::reduce_dtype, .why = "zeroth.gradient_dtype",
   .meaning = "Dtype in which gradients travel."},
  {.path = "data_types.grad_accum_dtype", .kind = Kind::name, .names = dtype_names,
   .derive = derive::accumulate_dtype,
   .why = "bf16 with bf16 masters; else fp32 if a step reduces several times or with zeroth.same_bits_at_any_ranks, the "
          "reduced dtype if it has one micro-step, otherwise none",
   .meaning = "Dtype in which gradients are added up: those of micro-steps after each reduction or, before the one "
              "reduction of `last_micro_step`, on the rank: there fp32 or zeroth.gradient_dtype."},
  {.path = "data_types.param_dtype", .kind = Kind::name, .names = dtype_names,
   .derive = derive::param_dtype, .why = "fp16.enabled and bf16.enabled",
   .meaning = "Dtype of the parameters that the math reads; it must be the one that `fp16` and `bf16` enable."},

  {.path = "zero_optimization.stage", .kind = Kind::integer, .range = {0, 3}, .value = 0,
   .when_auto = derive::left_open,
   .meaning = "What is sharded: 0 nothing, 1 the optimizer, 2 also the gradients, 3 also the parameters."},
  {.path = "zero_optimization.reduce_bucket_size", .kind = Kind::integer, .range = {1}, .value = 500'000'000, .automatic = true,
   .meaning = "Elements of gradients that leave together; a larger unit leaves by itself. At stages 2 and 3 also at most half of `zeroth.gradient_slots` units, by default one."},
  {.path = "zero_optimization.overlap_comm", .kind = Kind::boolean,
   .derive = derive::overlap, .why = "true at stage 3 only",
   .meaning = "Communicate while computing."},
  {.path = "zero_optimization.stage3_prefetch_bucket_size", .kind = Kind::integer, .value = 50'000'000,
   .automatic = true,
   .meaning = "Stage 3: units are gathered ahead while fewer elements than this are; 0 is no prefetch."},
  {.path = "zero_optimization.stage3_max_live_parameters", .kind = Kind::integer, .value = 1'000'000'000,
   .meaning = "Stage 3: elements that may be gathered at once. Bounds prefetch, with a warning where it leaves none; "
              "the unit in use always fits."},
  {.path = "zero_optimization.stage3_param_persistence_threshold", .kind = Kind::integer, .value = 0,
   .when_auto = derive::nothing_persists,
   .meaning = "Stage 3: parameters of at most so many elements are whole on every rank, and are not gathered when they "
              "are used."},
  {.path = "zero_optimization.stage3_model_persistence_threshold", .kind = Kind::integer,
   .value = std::numeric_limits<std::int64_t>::max(), .when_auto = derive::everything_may_persist,
   .meaning = "Stage 3: elements that all these parameters have at most, in the order of the model; one that would be "
              "over it is sharded."},
  {.path = "zero_optimization.stage3_gather_16bit_weights_on_model_save", .kind = Kind::boolean, .value = false,
   .meaning = "AnyEngine::save_weights() writes weights in the compute dtype, rounded from the masters, instead of in "
              "fp32; at every stage."},
  {.path = "zero_optimization.cpu_offload", .kind = Kind::boolean,
   .meaning = "DeepSpeed's older word for `offload_optimizer.device` \"cpu\"."},
  {.path = "zero_optimization.cpu_offload_param", .kind = Kind::boolean,
   .meaning = "DeepSpeed's older word for `offload_param.device` \"cpu\"."},

  {.path = "zero_optimization.zero_hpz_partition_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Stage 3 (ZeRO++ hpZ): every so many consecutive ranks are a group, and each group has all parameters, so that forward and backward gather within it; gradients and optimizer stay cut over all ranks. 1 is off."},
  {.path = "zero_optimization.mics_shard_size", .kind = Kind::integer, .range = {-1, int_limit}, .removed = true, .value = -1,
   .meaning = "Stages 1 to 3 (MiCS; FSDP's HSDP): every so many consecutive ranks are a group, and each group has all that the stage cuts; -1 is off."},

  {.path = "zero_optimization.offload_optimizer.device", .kind = Kind::name, .names = offload_names, .value = "none",
   .meaning = "Where masters and the optimizer's states live, at every stage: `nvme`, on CPUs, in files of each rank, that come into memory tile by tile while they are updated; `cpu`, on GPUs, likewise in pinned memory of the host. `cpu` is where a CPU has them anyway, and asks for nothing."},
  {.path = "zero_optimization.offload_optimizer.nvme_path", .kind = Kind::text,
   .meaning = "With `nvme`: a folder on the disk, made where there is none. The files have no names, and no death leaves one behind."},
  {.path = "zero_optimization.offload_optimizer.ratio", .kind = Kind::real, .range = {0, 1}, .value = 1.0,
   .meaning = "The part of the elements whose states are offloaded. What is updated first stays in memory."},
  {.path = "zero_optimization.offload_optimizer.buffer_count", .kind = Kind::integer, .range = {1, int_limit}, .value = 4,
   .meaning = "Buffers in memory, each for one state of a tile. As many as reading ahead and writing behind need are taken in any case."},
  {.path = "zero_optimization.offload_optimizer.pipeline_read", .kind = Kind::boolean,
   .derive = derive::pipeline, .why = "with cpu or nvme zero_optimization.overlap_comm, else none",
   .meaning = "Tiles are read while others are updated, and while forward and backward run."},
  {.path = "zero_optimization.offload_optimizer.pipeline_write", .kind = Kind::boolean,
   .derive = derive::pipeline, .why = "with cpu or nvme zero_optimization.overlap_comm, else none",
   .meaning = "Tiles are written while others are updated, and while forward and backward run."},
  {.path = "zero_optimization.offload_param.device", .kind = Kind::name, .names = offload_names, .value = "none",
   .meaning = "Where sharded parameters live: `nvme`, at stage 3, in a file of each rank, from which they are read ahead of their gathers. `cpu` is where a CPU has them anyway. An engine on a GPU refuses either."},
  {.path = "zero_optimization.offload_param.nvme_path", .kind = Kind::text,
   .meaning = "With `nvme`: a folder on the disk, made where there is none. The files have no names, and no death leaves one behind."},
  {.path = "zero_optimization.offload_param.buffer_count", .kind = Kind::integer, .range = {1, int_limit}, .value = 5,
   .meaning = "With `nvme`: buffers in memory, for what gathers read and updates write. As many as reading ahead and writing behind need are taken in any case."},
  {.path = "zero_optimization.offload_param.buffer_size", .kind = Kind::integer, .value = 100'000'000,
   .meaning = "With `nvme`: elements of a buffer at most, in steps of 2048, and at least as many. What a rank holds of a unit comes by pieces of that size."},
  {.path = "zero_optimization.offload_param.max_in_cpu", .kind = Kind::integer, .value = 1'000'000'000,
   .meaning = "With `nvme`: elements of its shards that a rank keeps in memory at most, by whole units; what forward uses first stays. 0 takes all to the disk."},
  {.path = "zero_optimization.sub_group_size", .kind = Kind::integer, .value = 1'000'000'000,
   .meaning = "Elements of a tile of offloaded states at most, in steps of 2048, and at least as many. It decides how much memory tiles take."},

  {.path = "aio.block_size", .kind = Kind::integer, .range = {4096, int_limit}, .value = 1'048'576,
   .meaning = "With `nvme`: bytes of one request to the disk, a multiple of 4096."},
  {.path = "aio.queue_depth", .kind = Kind::integer, .range = {1, 1024}, .value = 8,
   .meaning = "With `nvme`: requests that a rank has under way at once, for each of `intra_op_parallelism`."},
  {.path = "aio.intra_op_parallelism", .kind = Kind::integer, .range = {1, 64},
   .derive = derive::disk_threads, .why = "aio.thread_count",
   .meaning = "With `nvme`: multiplies `queue_depth`. Each request that is under way is a thread's."},
  {.path = "aio.thread_count", .kind = Kind::integer, .range = {1, 64}, .value = 1,
   .meaning = "What DeepSpeed called `intra_op_parallelism` before."},

  {.path = "fp16.enabled", .kind = Kind::boolean, .value = false,
   .when_auto = derive::fp16_where_bf16_decides,
   .meaning = "Compute in fp16, with fp32 masters."},
  {.path = "fp16.loss_scale", .kind = Kind::real, .value = 0.0,
   .meaning = "Static loss scale; 0 is dynamic."},
  {.path = "fp16.initial_scale_power", .kind = Kind::integer, .range = {0, 126}, .value = 16,
   .meaning = "The dynamic loss scale starts at 2 to this power."},
  {.path = "fp16.loss_scale_window", .kind = Kind::integer, .value = 1000,
   .meaning = "Steps without overflow after which the scale doubles; at least 1 where the scale is dynamic."},
  {.path = "fp16.hysteresis", .kind = Kind::integer, .range = {0, int_limit}, .value = 2,
   .meaning = "Overflows until the scale halves; at least 1 where the scale is dynamic."},
  {.path = "fp16.consecutive_hysteresis", .kind = Kind::boolean, .value = false,
   .meaning = "Every step without overflow restores the hysteresis."},
  {.path = "fp16.min_loss_scale", .kind = Kind::integer, .value = 1,
   .meaning = "Smallest dynamic scale, then at least 1; an overflow there ends training."},

  {.path = "bf16.enabled", .kind = Kind::boolean, .value = false,
   .when_auto = derive::bf16_where_fp16_decides,
   .meaning = "Compute in bf16, with fp32 masters unless `bf16_master_weights_and_grads` is true."},
  {.path = "bf16.check_grad_overflow", .kind = Kind::boolean, .value = true,
   .meaning = "With bf16: skip an update whose gradient is not finite. (fp16 always does, fp32 where zeroth.skip_nonfinite says so.)"},
  {.path = "bf16.bf16_master_weights_and_grads", .kind = Kind::boolean, .value = false,
   .meaning = "The bf16 parameters are the masters: updates are rounded to them stochastically. Gradients are bf16 "
              "everywhere."},
  {.path = "bf16.bf16_optimizer_states", .kind = Kind::boolean, .value = false,
   .meaning = "With bf16 masters: the optimizer's states are bf16 too, rounded stochastically."},

  {.path = "optimizer.type", .kind = Kind::name, .names = optimizer_names, .any_case = true,
   .foreign_names = "Lamb Muon MuAdam MuAdamW MuSGD", .removed_names = "OneBitAdam ZeroOneAdam OneBitLamb",
   .value = "AdamW", .when_auto = derive::left_open,
   .meaning = "In upper or lower case. Adam is AdamW unless `adam_w_mode` is false."},
  {.path = "optimizer.params.lr", .kind = Kind::real,
   .derive = derive::learning_rate, .why = "0.01 for Adagrad and RMSprop, else 0.001",
   .when_auto = derive::left_open,
   .meaning = "Learning rate, where no schedule says otherwise."},
  {.path = "optimizer.params.betas", .kind = Kind::pair, .range = {0, 1, false, true}, .value = Pair{0.9, 0.999},
   .types = "AdamW Adam Lion",
   .meaning = "Adam: decay rates of the two moments. Lion: of the average in the direction, and of the average."},
  {.path = "optimizer.params.eps", .kind = Kind::real, .range = {0, unbounded, true},
   .derive = derive::epsilon, .why = "1e-10 for Adagrad, else 1e-08", .types = "AdamW Adam Adagrad RMSprop",
   .meaning = "Added to the root of the second moment, or of the sum of squares."},
  {.path = "optimizer.params.weight_decay", .kind = Kind::real, .value = 0.0,
   .types = "AdamW Adam SGD Adagrad RMSprop Lion",
   .meaning = "Weight decay of parameters that do not say otherwise. SGD, Adagrad and RMSprop add it to the gradient."},
  {.path = "optimizer.params.bias_correction", .kind = Kind::boolean, .value = true, .types = "AdamW Adam",
   .meaning = "Correct the moments for their start at zero."},
  {.path = "optimizer.params.adam_w_mode", .kind = Kind::boolean, .value = true, .types = "AdamW Adam",
   .meaning = "Decay apart from the gradient (AdamW); false, for type Adam only, adds it to the gradient."},
  {.path = "optimizer.params.momentum", .kind = Kind::real, .value = 0.0, .types = "SGD RMSprop",
   .meaning = "Decay rate of a buffer of past steps; 0 is no buffer, and no memory for one."},
  {.path = "optimizer.params.dampening", .kind = Kind::real, .range = {0, 1}, .value = 0.0, .types = "SGD",
   .meaning = "With momentum: what gradients after the first lack in the buffer."},
  {.path = "optimizer.params.nesterov", .kind = Kind::boolean, .value = false, .types = "SGD",
   .meaning = "Nesterov's momentum."},
  {.path = "optimizer.params.alpha", .kind = Kind::real, .range = {0, 1, false, true}, .value = 0.99, .types = "RMSprop",
   .meaning = "Decay rate of the mean of squares."},
  {.path = "optimizer.params.lr_decay", .kind = Kind::real, .value = 0.0, .types = "Adagrad",
   .meaning = "The rate of update t is divided by 1 + (t - 1) times this."},
  {.path = "optimizer.params.initial_accumulator_value", .kind = Kind::real, .value = 0.0, .types = "Adagrad",
   .meaning = "What the sum of squares starts from."},

  {.path = "scheduler.type", .kind = Kind::name, .names = scheduler_names,
   .when_auto = derive::left_open,
   .meaning = "Learning-rate schedule; none is a constant rate. Updates that are skipped do not count."},
  {.path = "scheduler.params.warmup_min_lr", .kind = Kind::real, .value = 0.0,
   .types = "WarmupLR WarmupDecayLR",
   .meaning = "Rate that the warm-up starts from, and that WarmupDecayLR ends at."},
  {.path = "scheduler.params.warmup_max_lr", .kind = Kind::real,
   .derive = derive::warmup_max, .why = "optimizer.params.lr for WarmupLR, 0.001 for WarmupDecayLR",
   .when_auto = derive::rate_of_the_optimizer,
   .types = "WarmupLR WarmupDecayLR",
   .meaning = "Rate that the warm-up ends at."},
  {.path = "scheduler.params.warmup_num_steps", .kind = Kind::integer, .range = {1}, .value = 1000,
   .when_auto = derive::left_open,
   .types = "WarmupLR WarmupDecayLR WarmupCosineLR",
   .meaning = "Updates that the warm-up takes; 1 is taken as 2."},
  {.path = "scheduler.params.warmup_type", .kind = Kind::name, .names = warmup_names, .value = "log",
   .types = "WarmupLR WarmupDecayLR WarmupCosineLR",
   .meaning = "Shape of the warm-up. With either the first two updates run at its start, by default a rate of 0, as in DeepSpeed."},
  {.path = "scheduler.params.total_num_steps", .kind = Kind::integer, .range = {1},
   .when_auto = derive::left_open,
   .types = "WarmupDecayLR WarmupCosineLR",
   .meaning = "Updates after which the rate has reached its end. Required."},
  {.path = "scheduler.params.warmup_min_ratio", .kind = Kind::real, .value = 0.0,
   .types = "WarmupCosineLR",
   .meaning = "Fraction of optimizer.params.lr that the warm-up starts from."},
  {.path = "scheduler.params.cos_min_ratio", .kind = Kind::real, .value = 1e-4,
   .types = "WarmupCosineLR",
   .meaning = "Fraction of optimizer.params.lr that the cosine ends at."},

  {.path = "scheduler.params.cycle_min_lr", .kind = Kind::real, .types = "OneCycle",
   .meaning = "Rate that the cycle starts and ends at. Required."},
  {.path = "scheduler.params.cycle_max_lr", .kind = Kind::real, .types = "OneCycle",
   .meaning = "Rate in the middle of the cycle. Required."},
  {.path = "scheduler.params.cycle_first_step_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 2000, .types = "OneCycle",
   .meaning = "Updates that the rate rises over."},
  {.path = "scheduler.params.cycle_second_step_size", .kind = Kind::integer, .range = {0, int_limit},
   .derive = derive::cycle_second, .why = "cycle_first_step_size", .types = "OneCycle",
   .meaning = "Updates that it falls over."},
  {.path = "scheduler.params.cycle_first_stair_count", .kind = Kind::integer, .range = {0, int_limit}, .value = 0, .types = "OneCycle",
   .meaning = "Stairs that it rises in; 0 is evenly."},
  {.path = "scheduler.params.cycle_second_stair_count", .kind = Kind::integer, .range = {0, int_limit},
   .derive = derive::cycle_second_stairs, .why = "cycle_first_stair_count", .types = "OneCycle",
   .meaning = "Stairs that it falls in; 0 is evenly."},
  {.path = "scheduler.params.decay_step_size", .kind = Kind::integer, .range = {0, int_limit}, .value = 0, .types = "OneCycle",
   .meaning = "After the cycle the rate is divided by 1 + `decay_lr_rate` for each so many updates; 0 is no decay."},
  {.path = "scheduler.params.decay_lr_rate", .kind = Kind::real, .value = 0.0, .types = "OneCycle",
   .meaning = "See `decay_step_size`."},
  {.path = "scheduler.params.cycle_momentum", .kind = Kind::boolean, .value = true, .types = "OneCycle",
   .meaning = "Cycle the first of an optimizer's betas as well, which Zeroth does not: with AdamW, Adam or Lion it must be false."},
  {.path = "scheduler.params.cycle_min_mom", .kind = Kind::real, .value = 0.8, .types = "OneCycle",
   .meaning = "Of `cycle_momentum`."},
  {.path = "scheduler.params.cycle_max_mom", .kind = Kind::real, .value = 0.9, .types = "OneCycle",
   .meaning = "Of `cycle_momentum`."},
  {.path = "scheduler.params.decay_mom_rate", .kind = Kind::real, .value = 0.0, .types = "OneCycle",
   .meaning = "Of `cycle_momentum`."},
  {.path = "scheduler.params.lr_range_test_min_lr", .kind = Kind::real, .value = 1e-3, .types = "LRRangeTest",
   .meaning = "Rate of the first update."},
  {.path = "scheduler.params.lr_range_test_step_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 2000, .types = "LRRangeTest",
   .meaning = "Updates of an interval."},
  {.path = "scheduler.params.lr_range_test_step_rate", .kind = Kind::real, .value = 1.0, .types = "LRRangeTest",
   .meaning = "The rate is multiplied by 1 + this times the intervals so far."},
  {.path = "scheduler.params.lr_range_test_staircase", .kind = Kind::boolean, .value = false, .types = "LRRangeTest",
   .meaning = "Count whole intervals only."},

  {.path = "zeroth.gradient_dtype", .kind = Kind::name, .names = dtype_names,
   .derive = derive::gradient_dtype, .why = "the compute dtype",
   .meaning = "Dtype of the memory that backward writes: fp32 or the compute dtype."},
  {.path = "zeroth.reduce_gradients", .kind = Kind::name, .names = reduce_gradients_names,
   .derive = derive::reduce_gradients,
   .why = "last_micro_step at stages 0 and 1, every_micro_step at stages 2 and 3 and with zeroth.same_bits_at_any_ranks",
   .meaning = "When gradients leave a rank: after every micro-step, or once, after they were added up on the rank. Roundings follow it: with several micro-steps give it, and every stage trains the same."},
  {.path = "zeroth.tied_gradients", .kind = Kind::name, .names = tied_gradients_names,
   .derive = derive::tied_gradients, .why = "apart with zeroth.mesh.pipeline above 1, else together",
   .meaning = "How gradients of a parameter that several units use are added up: `together` in one memory, as they come; or `apart`, each unit's by themselves over micro-steps and ranks, and then their sums in the order of units. `apart` has the same bits in a pipeline of any number of stages, and without one. Chunks of a pipeline have no memory together."},
  {.path = "zeroth.mesh.pipeline", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Stages of a pipeline, each of as many ranks in a row as the job's ranks are divided by it: see zeroth::Mesh. What depends on the number of ranks, batch sizes too, follows from the ranks of a stage."},
  {.path = "zeroth.mesh.tensor", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Ranks in a row that divide parameters by ParamOptions::cut among themselves, and see the same samples: see zeroth::Mesh. What depends on the number of ranks, batch sizes too, follows from the ranks of a stage that have the same part."},
  {.path = "zeroth.sequence_parallel", .kind = Kind::boolean, .value = false,
   .meaning = "Programs that divide layers by zeroth::TensorParallel divide the rows between them among the ranks of `zeroth.mesh.tensor`, too: the stage file's word for TensorParallelOptions::sequence."},
  {.path = "tensor_parallel.autotp_size", .kind = Kind::integer, .range = {0, int_limit}, .value = 0,
   .meaning = "DeepSpeed's word for `zeroth.mesh.tensor`, which has to be the same number; 0 says nothing."},
  {.path = "tensor_parallel.tensor_parallel.tp_size", .kind = Kind::integer, .range = {1, int_limit}, .value = 1,
   .meaning = "Likewise; 1 says nothing."},
  {.path = "zeroth.pipeline.schedule", .kind = Kind::name, .names = pipeline_schedule_names, .value = "1f1b",
   .meaning = "With `zeroth.mesh.pipeline`: the order in which a stage runs its micro-steps forward and backward. `gpipe` runs all forward first; `1f1b` holds the activations of no more micro-steps than there are stages; `interleaved_1f1b` does that with several chunks a stage; `zb_h1` divides backward, and fills waits with gradients of weights; `file` takes the lists of `zeroth.pipeline.schedule_file`. The bits are the same. One stage runs its micro-steps one after the other."},
  {.path = "zeroth.pipeline.schedule_file", .kind = Kind::text,
   .meaning = "With the schedule `file`: a table of a line a stage, and in each cell an action: the chunk, F, B, I or W (forward, backward, backward by inputs and by weights), and the micro-step, as `0F3`. Empty cells are passed over, so what PyTorch's pipelines write as CSV can be read."},
  {.path = "zeroth.pipeline.chunks", .kind = Kind::integer, .range = {1, 1024}, .value = 1,
   .meaning = "With `interleaved_1f1b` or `file`: runs of consecutive units that each stage has. Chunk c is of stage c % `zeroth.mesh.pipeline`."},
  {.path = "zeroth.pipeline.partition", .kind = Kind::name, .names = pipeline_partition_names, .value = "parameters",
   .meaning = "What the largest chunk has as little of as can be: elements of parameters, units, or flops, as `flops_profiler` counts them."},
  {.path = "zeroth.pipeline.first_units", .kind = Kind::integers, .range = {0, int_limit},
   .meaning = "Instead of `zeroth.pipeline.partition`: the unit that each chunk begins with, as `[0, 7, 13]`. Units are counted from 0, in the order in which the model has them."},
  {.path = "zeroth.same_bits_at_any_ranks", .kind = Kind::boolean, .value = false,
   .meaning = "The same global batch gives the same losses and weights on any number of ranks: micro-steps are added to fp32 sums one after another, in the order that they have in the batch. Refuses what cannot keep it; with 16-bit gradients and one micro-step it costs 4 bytes for each element that a rank updates."},
  {.path = "zeroth.replay_every", .kind = Kind::integer, .range = {0, int_limit}, .value = 0,
   .meaning = "In every step whose number this divides, the first micro-step runs twice on each rank, and what differs ends the job before the update, by rank, unit and parameter: it finds faulty processors and memory, and programs that do not compute the same twice. Costs one micro-step in so many steps. 0 is off."},
  {.path = "zeroth.gradient_slots", .kind = Kind::integer, .range = {1, int_limit},
   .derive = derive::gradient_slots, .why = "2 with overlap_comm, 1 without",
   .meaning = "Stages 2 and 3: units whose full gradients are held at once."},
  {.path = "zeroth.two_level_sums", .kind = Kind::boolean, .value = false,
   .meaning = "Gradients are summed within each group, then over groups, and rounded both times: fewer steps on many machines, other roundings than one sum has, and the same at every stage."},
  {.path = "zeroth.group_size", .kind = Kind::integer, .range = {1, int_limit},
   .derive = derive::group_size, .why = "zero_hpz_partition_size or mics_shard_size, else none",
   .meaning = "With `two_level_sums`, where neither of the two keys of DeepSpeed's says it: consecutive ranks in a group."},
  {.path = "zeroth.offload_update", .kind = Kind::name, .names = offload_update_names, .value = "device",
   .meaning = "With `offload_optimizer` `cpu`, on GPUs: who updates what is in the host's memory. `device`: the GPU, to which the states come and go by tiles; `host`, as in DeepSpeed: the CPU, to which gradients come, and from which parameters go. The bits are the same."},
  {.path = "zeroth.offload_update_threads", .kind = Kind::integer, .range = {1, 1024}, .value = 1,
   .meaning = "With `offload_update` `host`: threads of each rank that update together."},
  {.path = "zeroth.skip_nonfinite", .kind = Kind::boolean,
   .derive = derive::skip_nonfinite, .why = "true with fp16, bf16.check_grad_overflow with bf16, false in fp32",
   .meaning = "Skip an update whose gradient is not finite, or too large for its norm to be. false is not for fp16, whose loss scale lives on it."},
  {.path = "zeroth.stochastic_rounding_seed", .kind = Kind::integer, .value = 0,
   .meaning = "With bf16 masters: what the random bits follow, beside the number of the update and the element."},
  {.path = "zeroth.strict", .kind = Kind::boolean, .value = false,
   .meaning = "What would only be noted, keys without effect here and unknown ones, is an error."},
  {.path = "zeroth.timeout_ms", .kind = Kind::integer, .range = {1, 31'536'000'000.0}, .value = 600'000,
   .meaning = "Milliseconds after which a rank that does not answer ends the job."},
  {.path = "zeroth.check", .kind = Kind::boolean, .value = false,
   .meaning = "Compare what the ranks are about to communicate in every step, not only in the first two; and every 100 steps, waiting, what all of them hold whole. An engine refuses calls of two threads at the same time."},
  {.path = "zeroth.single_communicator", .kind = Kind::boolean, .value = false,
   .meaning = "Gathers and reductions take turns on one communicator, instead of having one each: with NCCL, less memory of the GPU and no overlap of the two."},
  {.path = "zeroth.copy_engine_gather", .kind = Kind::boolean, .value = false,
   .meaning = "With NCCL: gathers inside one machine by copy engines, which leaves all multiprocessors to the math, where NCCL can."},
  {.path = "zeroth.register_memory", .kind = Kind::boolean, .value = true,
   .meaning = "Register what is communicated where that helps: with NCCL as windows, with tcp among the ranks of a machine, which map it. false does without, should one of them fail at it."},
  {.path = "zeroth.poison", .kind = Kind::boolean, .value = false,
   .meaning = "Fill memory with NaN when what it held is no longer valid. Guards hand out copies of parameters and gradients, which are NaN once a guard has ended: at every stage, and for the memory of both, whole."},
  {.path = "zeroth.flight_recorder", .kind = Kind::text, .value = "",
   .meaning = "Folder for the record of the last collectives, written on a fault; empty is the working folder."},
  {.path = "zeroth.checkpoint.buffer_bytes", .kind = Kind::integer, .value = 0,
   .meaning = "0 writes states from where they lie: an update waits until what it changes has been written. 1 MiB of the host is then for what is small or not aligned; states of a GPU go through 16 MiB. 8388608 and more: memory of the host, on every rank that saves, for copies on their way to the disk. With as much as a rank's share of the states an update never waits for the disk."},
  {.path = "zeroth.checkpoint.keep", .kind = Kind::integer, .range = {0}, .value = 0,
   .meaning = "Checkpoints that stay in a folder, the newest; 0 is all. What a program gives to save() comes first."},
  {.path = "zeroth.checkpoint.direct_io", .kind = Kind::boolean, .value = true,
   .meaning = "Write and read checkpoints past the system's cache of files (O_DIRECT), where the file system can."},
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

/// A path of the table, as a template argument. A typing error does not compile, and the value's type follows.
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
