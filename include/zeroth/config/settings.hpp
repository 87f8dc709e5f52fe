// SPDX-License-Identifier: Apache-2.0
/// The stage file as types: every value resolved, none optional. What the layers below the file work from.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth {

/// When gradients leave a rank: after every micro-step, or once, after they were summed up locally.
enum class ReduceGradients : std::uint8_t { every_micro_step, last_micro_step };

/// Samples. train == micro * accumulation * world.
struct BatchSettings {
  std::int64_t train = 1;         ///< Of one update, over all ranks.
  std::int64_t micro = 1;         ///< Of one rank in one micro-step.
  std::int64_t accumulation = 1;  ///< Micro-steps of one update.
};

/// The dtypes, each named: what the math reads, what backward writes, what travels, what reductions are summed into,
/// what updates are added to, and the optimizer's states. The last two are fp32, or bf16 and rounded stochastically.
struct PrecisionSettings {
  Dtype compute = Dtype::fp32;     ///< Of parameters as the math reads them.
  Dtype gradient = Dtype::fp32;    ///< compute, or fp32.
  Dtype reduce = Dtype::fp32;      ///< Of messages between ranks.
  Dtype accumulate = Dtype::fp32;  ///< Of gradients that are added up over micro-steps.
  Dtype master = Dtype::fp32;      ///< bf16 only where compute is.
  Dtype states = Dtype::fp32;      ///< bf16 only where the master is.
  /// Whether there is a master beside the parameters; otherwise they are it.
  [[nodiscard]] bool has_master() const noexcept { return master != compute; }
};

/// Groups of consecutive ranks: zero_hpz_partition_size, mics_shard_size, two_level_sums. Each group has what is cut
/// among its ranks once.
struct GroupSettings {
  int size = 1;                 ///< Ranks of a group; all of them where nothing is done by groups.
  int count = 1;                ///< Groups.
  bool cut_parameters = false;  ///< Are parameters cut among a group? Otherwise among all ranks, where the stage cuts.
  bool cut_states = false;      ///< Likewise gradients and the optimizer's states, and parameters with them.
  bool two_level_sums = false;  ///< Gradients are summed within groups, then over groups.
};

/// Of save() and restore(): zeroth.checkpoint.
struct CheckpointSettings {
  std::int64_t buffer_bytes = 0;  ///< Of the host, on each rank; 0: states are written from where they lie.
  std::int64_t keep = 0;          ///< The newest; 0: all.
  bool direct_io = true;          ///< Past the system's cache of files.
};

/// A folder that the numbers of steps are written to, `output_path`/`job_name`, under DeepSpeed's names.
struct MonitorSettings {
  bool enabled = false;                       ///< Otherwise nothing is written.
  std::string output_path;                    ///< Empty: the working folder.
  std::string job_name = "DeepSpeedJobName";  ///< Under it.
};

/// Weights & Biases, whose program uploads TensorBoard's event files.
struct WandbSettings {
  bool enabled = false;               ///< Event files are written, and the log says how to upload them.
  std::string project = "deepspeed";  ///< That they are uploaded to.
  std::string team;                   ///< wandb's entity; may be empty.
};

/// What collectives move, and how long they take.
struct CommsLoggerSettings {
  bool enabled = false;  ///< A table at the engine's end.
  bool verbose = false;  ///< Also with each line of the log, or every ten steps.
};

/// Operations and times of one step.
struct FlopsProfilerSettings {
  bool enabled = false;             ///< A table, once.
  std::int64_t profile_step = 1;    ///< Of this step; of the second where it is the first, which is slow.
  double recompute_fwd_factor = 0;  ///< Of forward, done again in backward.
  bool detailed = true;             ///< A line for each unit.
  std::string output_file;          ///< Instead of the log.
};

/// What an engine prints and writes of its steps, on rank 0. What it prints goes to the log.
struct ReportSettings {
  std::int64_t steps_per_print = 0;   ///< A line every so many steps; 0: none.
  bool wall_clock_breakdown = false;  ///< With it, or every ten steps, where the time went.
  bool memory_breakdown = false;      ///< The plan when the engine is built, and with each line the most that was held.
  bool dump_state = false;            ///< The resolved file, when the engine is built.
  MonitorSettings tensorboard;        ///< As event files.
  MonitorSettings csv;                ///< As a file of values for each name.
  WandbSettings wandb;                ///< As event files for `wandb sync`.
  CommsLoggerSettings comms;          ///< See there.
  FlopsProfilerSettings flops;        ///< See there.
};

/// What a file asks of the program's own activations: activation_checkpointing.
struct ActivationSettings {
  std::int64_t number_checkpoints = 0;  ///< To keep; 0: the file does not say.
  bool cpu_checkpointing = false;       ///< In the host's memory.
};

/// Of small parameters, which every rank has whole where the others are gathered when they are used: DeepSpeed's
/// stage3_param_persistence_threshold and stage3_model_persistence_threshold.
struct PersistenceSettings {
  std::int64_t param_count = 0;                                         ///< Elements of a parameter, at most; 0: none.
  std::int64_t model_count = std::numeric_limits<std::int64_t>::max();  ///< Of all of them; others are not persistent.
};

/// Where states are when nobody uses them.
enum class OffloadDevice : std::uint8_t { none, cpu, nvme };
/// Who updates states that are in the host's memory beside a GPU.
enum class OffloadUpdate : bool { device, host };

/// Of the optimizer's states and of parameters: offload_optimizer, offload_param, sub_group_size and aio. `cpu` is
/// where a CPU has them anyway.
struct OffloadSettings {
  OffloadDevice optimizer = OffloadDevice::none;   ///< See there.
  OffloadDevice parameters = OffloadDevice::none;  ///< Likewise, of what is cut of them.
  std::filesystem::path folder;                    ///< With nvme: where the files of the optimizer's states are.
  double ratio = 1;                                ///< Of the elements, those that are offloaded.
  OffloadUpdate update = OffloadUpdate::device;    ///< With cpu. A CPU is the host itself, and updates either way.
  int update_threads = 1;                          ///< Of the host, on each rank, where it updates.
  int buffer_count = 4;                            ///< Of a state of a tile, at least.
  bool read_ahead = false;                         ///< Tiles are read while others are updated.
  bool write_behind = false;                       ///< Likewise written.
  std::int64_t tile_count = 1'000'000'000;         ///< Elements that are read, updated and written together, at most.
  std::int64_t piece_bytes = std::int64_t{1} << 20U;        ///< Of one request to the disk.
  int requests = 8;                                         ///< Under way at once, on each rank.
  std::filesystem::path parameter_folder;                   ///< With nvme: where the files of parameters are.
  int parameter_buffers = 5;                                ///< For what gathers read and updates write, at least.
  std::int64_t parameter_buffer_count = 100'000'000;        ///< Elements of one, at most.
  std::int64_t parameters_in_memory_count = 1'000'000'000;  ///< Elements that a rank keeps in memory, at most.
};

/// In which order a stage of a pipeline runs its micro-steps.
enum class PipelineSchedule : std::uint8_t {
  gpipe,                     ///< All forward, then all backward.
  one_forward_one_backward,  ///< One forward and one backward take turns, once the pipeline is full.
  interleaved,               ///< The same with several chunks a stage.
  zero_bubble,               ///< The same as with one chunk, with backward divided.
  file                       ///< What PipelineSettings::schedule_file says.
};
/// What the largest chunk has as little of as can be.
enum class PipelinePartition : std::uint8_t {
  parameters,  ///< Elements.
  units,       ///< Units.
  flops        ///< Products of matrices.
};
/// Those that follow a rule.
inline constexpr PipelineSchedule pipeline_schedules[] = {PipelineSchedule::gpipe,
                                                          PipelineSchedule::one_forward_one_backward,
                                                          PipelineSchedule::interleaved, PipelineSchedule::zero_bubble};
/// As stage files have it.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(PipelineSchedule schedule) noexcept;
/// How gradients of a parameter that several units use are added up.
enum class TiedGradients : std::uint8_t {
  together,  ///< All uses in one memory, as they come.
  apart      ///< Each unit's uses by themselves, over micro-steps and ranks; then the sums, in the order of units.
};
/// What a Mesh reads, and how ties are summed with it or without.
struct PipelineSettings {
  int stages = 1;                                                          ///< Stages that share the units.
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;  ///< See there.
  int chunks = 1;                                                          ///< Of each stage.
  PipelinePartition partition = PipelinePartition::parameters;             ///< See there.
  std::vector<std::uint32_t> first_units{};                                ///< Of each chunk; empty: by `partition`.
  std::filesystem::path schedule_file{};                                   ///< Empty but for the schedule `file`.
  TiedGradients tied_gradients = TiedGradients::together;                  ///< See there.
  /// Chunks of the whole model.
  [[nodiscard]] int all_chunks() const noexcept { return stages == 1 ? 1 : stages * chunks; }
};

/// All of it, for one world size.
struct Settings {
  int stage = 0;                                                        ///< 0 to 3.
  BatchSettings batch;                                                  ///< See there.
  PrecisionSettings precision;                                          ///< See there.
  ReduceGradients reduce_gradients = ReduceGradients::last_micro_step;  ///< See there.
  bool reduce_gradients_given =
      false;  ///< By the file, or by same_bits_at_any_ranks; otherwise it follows from the stage.
  /// Micro-steps whose gradients are 16 bits and are reduced once are added up on the rank in fp32, beside what
  /// backward writes; otherwise backward adds to what it wrote before.
  bool sums_micro_steps = false;
  std::int64_t replay_every = 0;        ///< Steps; 0: no micro-step runs twice.
  bool same_bits_at_any_ranks = false;  ///< Asked for: an engine refuses what cannot keep it.

  PipelineSettings pipeline;                       ///< See there.
  int tensor_ranks = 1;                            ///< That divide parameters among themselves.
  GroupSettings groups;                            ///< See there.
  OffloadSettings offload;                         ///< See there.
  PersistenceSettings persistence;                 ///< See there.
  std::int64_t reduce_bucket_count = 500'000'000;  ///< Elements.
  std::int64_t prefetch_count = 50'000'000;        ///< Elements ahead of the unit in use. 0: no prefetch.
  std::int64_t max_live_count = 1'000'000'000;     ///< Elements gathered at once; the unit in use always fits.
  int gradient_slots = 2;                          ///< Units whose full gradients are held at once, stages 2 and 3.
  bool overlap_comm = false;                       ///< Communication on streams beside compute.

  optim::Update update;    ///< The optimizer.
  optim::StepRules rules;  ///< Schedule, loss scale, clipping. gradient_prescale is the engine's to set.

  std::chrono::milliseconds timeout{600'000};  ///< Of one collective.
  bool check = false;                          ///< Compare transactions in every step, and replicas every 100.
  bool single_communicator = false;            ///< Of gathers and reductions, which then take turns.
  bool copy_engine_gather = false;             ///< See comm::CommOptions::copy_engine.
  bool register_memory = true;                 ///< With communicators: what they move.
  bool poison = false;                    ///< Fill with NaN what is no longer valid, and let guards hand out copies.
  std::filesystem::path flight_recorder;  ///< Folder for the record of the last collectives; empty: the working folder.
  Dtype saved_weights =
      Dtype::fp32;                ///< Of the file that AnyEngine::save_weights() writes: this, or the compute dtype.
  ReportSettings reports;         ///< See there.
  CheckpointSettings checkpoint;  ///< Of AnyEngine::save() and restore().
};

}  // namespace zeroth
