// SPDX-License-Identifier: Apache-2.0
/// The stage file as types: every value is resolved, none is optional. The layers below the file use these.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/codec.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth {

/// When gradients leave a rank: after every micro-step, or once, after they are accumulated locally.
enum class ReduceGradients : std::uint8_t { every_micro_step, last_micro_step };

/// Batch sizes in samples. train == micro * accumulation * world.
struct BatchSettings {
  std::int64_t train = 1;         ///< Per update, over all ranks.
  std::int64_t micro = 1;         ///< Per rank and micro-step.
  std::int64_t accumulation = 1;  ///< Micro-steps per update.
};

/// The dtype of each kind of data. Master and optimizer states are fp32, or bf16 with stochastic rounding.
struct PrecisionSettings {
  Dtype compute = Dtype::fp32;     ///< Parameters as the math reads them.
  Dtype gradient = Dtype::fp32;    ///< The dtype that backward writes: compute, or fp32.
  Dtype reduce = Dtype::fp32;      ///< Messages between ranks.
  Dtype accumulate = Dtype::fp32;  ///< Gradients accumulated over micro-steps.
  Dtype master = Dtype::fp32;      ///< Masters; bf16 only if compute is.
  Dtype states = Dtype::fp32;      ///< Optimizer states; bf16 only if the master is.
  /// Whether masters are separate from the parameters; otherwise the parameters are the masters.
  [[nodiscard]] bool has_master() const noexcept { return master != compute; }
};

/// Groups of consecutive ranks: zero_hpz_partition_size, mics_shard_size, two_level_sums. Each group holds one full
/// copy of what is sharded within it.
struct GroupSettings {
  int size = 1;   ///< Ranks per group; all ranks if nothing is done by groups.
  int count = 1;  ///< Number of groups.
  /// Shard parameters within a group; otherwise over all ranks, if the stage shards them.
  bool cut_parameters = false;
  bool cut_states = false;      ///< Shard gradients and optimizer states within a group, and parameters with them.
  bool two_level_sums = false;  ///< Sum gradients within groups first, then over groups.
};

/// Settings of save() and restore(): zeroth.checkpoint.
struct CheckpointSettings {
  std::int64_t buffer_bytes = 0;  ///< Host memory per rank; 0: states are written without a copy.
  std::int64_t keep = 0;          ///< Number of newest checkpoints to keep; 0 keeps all.
  bool direct_io = true;          ///< Bypass the system's file cache.
};

/// A folder for the steps' values, `output_path`/`job_name`, with DeepSpeed's names.
struct MonitorSettings {
  bool enabled = false;                       ///< If false, nothing is written.
  std::string output_path;                    ///< Empty: the working directory.
  std::string job_name = "DeepSpeedJobName";  ///< A folder in `output_path`.
};

/// Weights & Biases, whose program can upload TensorBoard's event files.
struct WandbSettings {
  bool enabled = false;               ///< Write event files, and log how to upload them.
  std::string project = "deepspeed";  ///< The project to upload them to.
  std::string team;                   ///< wandb's entity; may be empty.
};

/// Logging of the bytes and times of collectives.
struct CommsLoggerSettings {
  bool enabled = false;  ///< Print a table when the engine is destroyed.
  bool verbose = false;  ///< Also print it with each line of the log, or every ten steps.
};

/// A profile of one step: operations and times.
struct FlopsProfilerSettings {
  bool enabled = false;             ///< Print a table, once.
  std::int64_t profile_step = 1;    ///< The step to profile. 1 means 2, because the first step is slow.
  double recompute_fwd_factor = 0;  ///< Fraction of forward that is recomputed in backward.
  bool detailed = true;             ///< Print a line for each unit.
  std::string output_file;          ///< The file to write to; empty: the log.
};

/// The logs and monitors of an engine's steps, on rank 0.
struct ReportSettings {
  std::int64_t steps_per_print = 0;   ///< Print a line every this many steps; 0: none.
  bool wall_clock_breakdown = false;  ///< Break down the time, with that line or every ten steps.
  bool memory_breakdown = false;      ///< Print the plan when the engine is built, and peak memory with each line.
  bool dump_state = false;            ///< Print the resolved file when the engine is built.
  MonitorSettings tensorboard;        ///< Event files.
  MonitorSettings csv;                ///< One CSV file per name.
  WandbSettings wandb;                ///< Event files for `wandb sync`.
  CommsLoggerSettings comms;          ///< The table of collectives.
  FlopsProfilerSettings flops;        ///< The profile of a step.
};

/// Which units are recomputed: of these only the input is kept, and backward runs their forward again.
enum class RecomputedUnits : std::uint8_t {
  none,
  all,
  every,   ///< One of ActivationSettings::every, by their order in the model.
  listed,  ///< ActivationSettings::names.
};
/// Where the kept inputs of recomputed units wait for backward.
enum class ActivationOffload : std::uint8_t {
  none,  ///< In the device's memory.
  cpu,   ///< In host memory; on CPUs that is the device's.
  nvme,  ///< In a file on a disk.
};
/// "none", "cpu" or "nvme", as in the stage file.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(ActivationOffload offload) noexcept;

/// Requests of a file about the program's own activations: activation_checkpointing and
/// zeroth.activation_checkpointing. See ActivationPolicy.
struct ActivationSettings {
  std::int64_t number_checkpoints = 0;                  ///< As in the file; 0: not specified.
  bool cpu_checkpointing = false;                       ///< As in the file.
  RecomputedUnits units = RecomputedUnits::none;        ///< Also set by number_checkpoints.
  std::int64_t every = 0;                               ///< With RecomputedUnits::every: 2 or more; otherwise 0.
  std::vector<std::string> names;                       ///< With RecomputedUnits::listed: as in the file.
  ActivationOffload offload = ActivationOffload::none;  ///< Also set by cpu_checkpointing.
  std::filesystem::path nvme_path;                      ///< Folder of ActivationOffload::nvme.
};

/// Small parameters that every rank holds unsharded, while larger ones are gathered for use: DeepSpeed's
/// stage3_param_persistence_threshold and stage3_model_persistence_threshold.
struct PersistenceSettings {
  std::int64_t param_count = 0;                                         ///< Max elements of such a parameter; 0: none.
  std::int64_t model_count = std::numeric_limits<std::int64_t>::max();  ///< Max elements of all of them together.
};

/// Where states are kept while they are not in use.
enum class OffloadDevice : std::uint8_t { none, cpu, nvme };
/// The processor that updates states which a GPU offloads to host memory.
enum class OffloadUpdate : bool { device, host };

/// Offloading of optimizer states and parameters: offload_optimizer, offload_param, sub_group_size and aio. `cpu` has
/// no effect if the device is a CPU.
struct OffloadSettings {
  OffloadDevice optimizer = OffloadDevice::none;      ///< Where optimizer states are.
  OffloadDevice parameters = OffloadDevice::none;     ///< Where sharded parameters are.
  std::filesystem::path folder;                       ///< With nvme: folder of the optimizer states' files.
  double ratio = 1;                                   ///< Fraction of elements that is offloaded.
  OffloadUpdate update = OffloadUpdate::device;       ///< With cpu. A CPU device always updates on the host.
  int update_threads = 1;                             ///< Host threads per rank, if the host updates.
  int buffer_count = 4;                               ///< Minimum number of buffers per state of a tile.
  bool read_ahead = false;                            ///< Read tiles while others are updated.
  bool write_behind = false;                          ///< Write tiles while others are updated.
  std::int64_t tile_count = 1'000'000'000;            ///< Max elements that are read, updated and written together.
  std::int64_t piece_bytes = std::int64_t{1} << 20U;  ///< Bytes per disk request.
  int requests = 8;                                   ///< Max concurrent disk requests per rank.
  std::filesystem::path parameter_folder;             ///< With nvme: folder of the parameters' files.
  int parameter_buffers = 5;  ///< Minimum number of buffers for what gathers read and updates write.
  std::int64_t parameter_buffer_count = 100'000'000;        ///< Max elements per buffer.
  std::int64_t parameters_in_memory_count = 1'000'000'000;  ///< Max elements that a rank keeps in memory.
};

/// The order in which a pipeline stage runs its micro-steps.
enum class PipelineSchedule : std::uint8_t {
  gpipe,                     ///< All forward, then all backward.
  one_forward_one_backward,  ///< Alternate one forward and one backward, once the pipeline is full.
  interleaved,               ///< The same with several chunks per stage.
  zero_bubble,               ///< As with one chunk, with backward divided in two.
  file                       ///< The order in PipelineSettings::schedule_file.
};
/// The measure by which the largest chunk is made as small as possible.
enum class PipelinePartition : std::uint8_t {
  parameters,  ///< Elements.
  units,       ///< Units.
  flops        ///< FLOPs of matrix products.
};
/// The schedules that follow a rule.
inline constexpr PipelineSchedule pipeline_schedules[] = {PipelineSchedule::gpipe,
                                                          PipelineSchedule::one_forward_one_backward,
                                                          PipelineSchedule::interleaved, PipelineSchedule::zero_bubble};
/// The name in stage files.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(PipelineSchedule schedule) noexcept;
/// How gradients are summed for a parameter that several units use.
enum class TiedGradients : std::uint8_t {
  together,  ///< All uses into one buffer, in the order in which they occur.
  apart      ///< Each unit's uses separately, over micro-steps and ranks; then these sums, in unit order.
};
/// Settings that a Mesh reads, and how gradients of ties are summed, with or without a Mesh.
struct PipelineSettings {
  int stages = 1;                                                          ///< Number of pipeline stages.
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;  ///< The order of micro-steps.
  int chunks = 1;                                                          ///< Chunks per stage.
  PipelinePartition partition = PipelinePartition::parameters;             ///< How units are divided into chunks.
  std::vector<std::uint32_t> first_units{};                ///< First unit of each chunk; empty: by `partition`.
  std::filesystem::path schedule_file{};                   ///< Set only for the schedule `file`.
  TiedGradients tied_gradients = TiedGradients::together;  ///< How gradients of ties are summed.
  /// Number of chunks of the whole model.
  [[nodiscard]] int all_chunks() const noexcept { return stages == 1 ? 1 : stages * chunks; }
};

/// Ranks that hold masters and optimizer states for the others: see AnyEngine::serves().
struct ParameterServerSettings {
  int servers = 0;         ///< The last ranks of a job; 0: none, each rank updates parameters itself.
  int staleness = 0;       ///< How many steps a worker may be ahead of the slowest one.
  bool colocated = false;  ///< Servers are threads of workers.
};

/// All settings of a stage file, for one world size.
struct Settings {
  int stage = 0;                                                        ///< The ZeRO stage, 0 to 3.
  BatchSettings batch;                                                  ///< Batch sizes.
  PrecisionSettings precision;                                          ///< Dtypes.
  ReduceGradients reduce_gradients = ReduceGradients::last_micro_step;  ///< When gradients leave a rank.
  bool reduce_gradients_given = false;  ///< Whether the file or same_bits_at_any_ranks set it, not the stage.
  /// Accumulate 16-bit gradients that are reduced once per step locally in fp32, apart from what backward writes.
  /// Otherwise backward adds to what it wrote before.
  bool sums_micro_steps = false;
  Codec reduce_codec = Codec::none;  ///< How gradients are encoded while they travel.
  Codec gather_codec = Codec::none;  ///< How parameters are rounded after an update, and encoded while they travel.
  /// Apply each update while the next step's passes run, which read the parameters from before it.
  bool delayed_update = false;
  std::int64_t replay_every = 0;        ///< Steps; 0: no micro-step runs twice.
  bool same_bits_at_any_ranks = false;  ///< Requested: an engine throws if it cannot keep it.

  PipelineSettings pipeline;                       ///< Pipeline stages and their schedule.
  ParameterServerSettings parameter_server;        ///< Parameter servers. Batch sizes count workers.
  int tensor_ranks = 1;                            ///< Ranks that divide parameters among themselves.
  GroupSettings groups;                            ///< Groups of ranks.
  OffloadSettings offload;                         ///< Offloading.
  ActivationSettings activations;                  ///< Requests to the program. Engines ignore them.
  PersistenceSettings persistence;                 ///< Small parameters that stay unsharded.
  std::int64_t reduce_bucket_count = 500'000'000;  ///< Elements per reduction bucket.
  std::int64_t prefetch_count = 50'000'000;        ///< Elements to prefetch beyond the unit in use; 0: no prefetch.
  std::int64_t max_live_count = 1'000'000'000;     ///< Max elements gathered at once; the unit in use always fits.
  int gradient_slots = 2;                          ///< Units whose full gradients are held at once, at stages 2 and 3.
  bool overlap_comm = false;                       ///< Overlap communication with compute, on separate streams.

  optim::Update update;  ///< The optimizer.
  /// If set: the optimizer of parameters with ParamOptions::matrix, and `update` is that of the others.
  std::optional<optim::Update> matrix_update;
  optim::StepRules rules;  ///< Schedule, loss scale, clipping. The engine sets gradient_prescale.

  std::chrono::milliseconds timeout{600'000};  ///< Time limit of one collective.
  bool check = false;                          ///< Compare transactions in every step, and replicas every 100 steps.
  bool single_communicator = false;            ///< One communicator for gathers and reductions, which then alternate.
  bool copy_engine_gather = false;             ///< See comm::CommOptions::copy_engine.
  bool register_memory = true;                 ///< Register buffers with communicators.
  bool poison = false;                         ///< Fill invalid memory with NaN, and let guards hand out copies.
  std::filesystem::path flight_recorder;       ///< Folder for the flight records; empty: the working directory.

  /// Dtype of files that AnyEngine::save_weights() writes: this, or the compute dtype.
  Dtype saved_weights = Dtype::fp32;
  ReportSettings reports;         ///< Logging and monitoring.
  CheckpointSettings checkpoint;  ///< AnyEngine::save() and restore().

  /// The optimizer's type in a stage file, or the name of a custom rule.
  [[nodiscard]] std::string_view optimizer_name() const noexcept {
    return optim::name_of((matrix_update ? *matrix_update : update).rule);
  }
};

}  // namespace zeroth
