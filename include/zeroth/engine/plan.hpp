// SPDX-License-Identifier: Apache-2.0
/// The allocations and settings of an engine, computed without a job.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/memory.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth {

/// Inputs of a plan besides model and file.
struct PlanOptions {
  comm::Transport transport = comm::Transport::local;  ///< mpi and tcp reduce in their own scratch memory.
  DeviceKind device = DeviceKind::cpu;                 ///< Host memory is a tier besides a GPU's own memory.
};

/// Buffers of one size, which units of up to that size take turns in.
struct PlannedSlots {
  int slots = 0;                    ///< Number of buffers.
  std::int64_t capacity_count = 0;  ///< Elements per buffer.
  std::int64_t flat_units = 0;      ///< Flat units that take turns in them.
  Dtype dtype = Dtype::fp32;        ///< Dtype of their elements.
};

/// A communicator that an engine makes.
struct PlannedCommunicator {
  std::string name;        ///< Its name in messages.
  std::vector<int> ranks;  ///< Rank 0's communicator of this name. Every rank is in one.
};

/// The masters and optimizer states that are offloaded to a tier besides the device's memory.
struct PlannedTier {
  std::int64_t bytes = 0;               ///< Size of a rank's file, or of its pinned host memory; 0 if unused.
  std::int64_t read_bytes = 0;          ///< Per rank and step, into device memory.
  std::int64_t written_bytes = 0;       ///< Per rank and step, from device memory.
  std::int64_t tiles = 0;               ///< Tiles that are updated one after the other.
  std::int64_t largest_tile_count = 0;  ///< Elements of the largest tile.
  int tiles_in_memory = 0;              ///< Tiles in memory at once: the device's, or the host's if that updates.
  std::int64_t memory_bytes = 0;        ///< The part of `slots` that tiles use.
};

/// Parameters that are offloaded to disk.
struct PlannedParametersDisk {
  std::int64_t bytes = 0;  ///< Size of a rank's file; 0 if all parameters are in memory.
  std::int64_t units = 0;  ///< Flat units on disk.
  /// Per rank, in a step that follows another one: by gathers in declared order, and by updates if the parameters are
  /// the masters.
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;  ///< By the updates of a step.
  std::int64_t buffer_count = 0;   ///< Elements per buffer.
  int buffers = 0;                 ///< Number of buffers for gathers and updates.
  std::int64_t memory_bytes = 0;   ///< The part of `slots` that they use.
};

/// The program's activations under zeroth.activation_checkpointing, over all units of the model. The engine allocates
/// none of it. Bytes are 0 if an offloaded unit has no UnitOptions::input_per_sample.
struct PlannedActivations {
  std::int64_t recomputed = 0;   ///< Units whose forward is run again in backward.
  std::int64_t offloaded = 0;    ///< Recomputed units whose inputs wait for backward in a store.
  std::int64_t input_bytes = 0;  ///< The largest of these inputs, for a micro-batch.
  /// Size of an ActivationStore for these inputs: a file, or with a GPU pinned host memory. Per rank; see
  /// ActivationStore::stored_bytes().
  std::int64_t stored_bytes = 0;
  std::int64_t memory_bytes = 0;  ///< Its slots, two by default; see ActivationStore::memory_bytes().
  /// Per rank and step, in whole blocks of 4096 bytes: each input of each micro-step.
  std::int64_t written_bytes = 0;
  std::int64_t read_bytes = 0;  ///< The same without what is still in a slot when backward begins.
};

/// Small parameters that every rank holds unsharded although the stage shards the others
/// (zero_optimization.stage3_param_persistence_threshold).
struct PlannedPersistence {
  std::int64_t parameters = 0;  ///< Number of such parameters.
  std::int64_t count = 0;       ///< Their elements.
  std::int64_t bytes = 0;       ///< The part of MemoryBytes::parameters that they use, including padding.
};

/// A pipeline stage.
struct PlannedStage {
  std::string first_unit;            ///< Name of its first unit.
  std::int64_t units = 0;            ///< Number of its units.
  std::int64_t parameter_count = 0;  ///< Elements of its parameters.
  int in_flight = 0;                 ///< Max micro-steps between forward and backward at the same time.
  std::int64_t message_bytes = 0;    ///< The part of `slots` that messages from and to its neighbours use.
  MemoryBytes bytes;                 ///< Bytes that each of its ranks allocates; its ledger shows the same.
  MemoryBytes padding;               ///< The part of `bytes` that is padding: see Plan::padding.
};

/// The memory of parameter servers.
struct PlannedServers {
  int count = 0;        ///< Servers; 0: none.
  MemoryBytes bytes;    ///< Bytes that each server allocates; its ledger shows the same.
  MemoryBytes padding;  ///< The part of `bytes` that is padding: see Plan::padding.
  // Over links, in a step, without the few bytes of orders and decisions.
  std::int64_t pushed_bytes = 0;    ///< A worker sends these to all servers together.
  std::int64_t received_bytes = 0;  ///< A server receives these from all workers together.
  std::int64_t sent_bytes = 0;      ///< A server sends these to all workers together.
};

/// A plan; the same on every rank. A flat unit is what is gathered and reduced together: a unit's own parameters, or
/// one that several units use. In a pipeline, values per rank are those of the stage whose ranks allocate most; values
/// of the model, checkpoints and notes cover all stages.
struct Plan {
  Settings settings;  ///< The file, resolved for this world and model.
  int world = 1;      ///< Ranks.
  /// Ranks that share states and batches: all, or those of a pipeline stage with the same part of parameters.
  int data_ranks = 1;
  int tensor_ranks = 1;                 ///< Ranks that divide parameters among themselves.
  DeviceKind device = DeviceKind::cpu;  ///< The device of each rank.

  /// Elements. Tied parameters count once, and those that tensor ranks divide count in full.
  std::int64_t parameter_count = 0;
  /// Elements that one tensor rank holds, including the padding of Cut::multiple; with one tensor rank, all elements.
  std::int64_t tensor_rank_count = 0;
  /// Elements that are fp32 although the compute dtype has 16 bits: ParamOptions::compute. Per tensor rank.
  std::int64_t fp32_count = 0;
  std::int64_t padded_count = 0;             ///< tensor_rank_count plus the padding for alignment and equal shares.
  std::int64_t units = 0;                    ///< Units of the model.
  std::int64_t flat_units = 0;               ///< Flat units of those; what several units share counts once.
  std::string largest_flat_unit;             ///< The one with most elements; a slot must hold it.
  std::int64_t largest_flat_unit_count = 0;  ///< Its elements, without padding.

  MemoryBytes bytes;  ///< Bytes that a rank allocates; its ledger shows the same.
  /// The part of `bytes` for alignment of parameters, gradients and optimizer states. Zero for slots and scratch.
  MemoryBytes padding;
  std::vector<PlannedStage> pipeline;  ///< Stages, if there are several.
  std::size_t largest_stage = 0;       ///< Index in `pipeline` of the first stage whose ranks allocate most.
  PlannedServers servers;              ///< With them `bytes` are a worker's, and `data_ranks` counts workers.
  PlannedPersistence persistent;       ///< Empty if every rank holds all parameters anyway.
  PlannedTier host;  ///< offload_optimizer "cpu" on a GPU. Not in `bytes`. See AnyEngine::bytes_of_host().
  PlannedTier disk;  ///< offload_optimizer "nvme". Not in `bytes`.
  PlannedParametersDisk parameters_disk;  ///< offload_param "nvme". Not in `bytes`.
  PlannedActivations activations;         ///< Not in `bytes`.
  /// The sum of `disk` and `parameters_disk`. See AnyEngine::bytes_on_disk().
  [[nodiscard]] std::int64_t bytes_on_disk() const noexcept { return disk.bytes + parameters_disk.bytes; }
  /// Bytes of states that AnyEngine::save() writes, over all files. Excludes headers and hashes.
  std::int64_t checkpoint_bytes = 0;
  /// Host memory per rank for a checkpoint's write buffers (zeroth.checkpoint.buffer_bytes), from the first save on. No
  /// ledger counts it; AnyEngine::staging_bytes() is what was allocated.
  std::int64_t staging_bytes = 0;
  bool shards_parameters = false;  ///< True at stage 3; otherwise every rank holds all parameters.
  bool shards_gradients = false;   ///< True at stages 2 and 3; otherwise every rank holds all gradients.
  bool shards_optimizer = false;   ///< True at stages 1 to 3; otherwise every rank holds all optimizer states.
  int parameter_ranks = 1;         ///< Ranks that one copy of the parameters is sharded over: 1, a group, or all.
  int gradient_ranks = 1;          ///< The same for gradients.
  int optimizer_ranks = 1;         ///< The same for optimizer states.
  std::vector<PlannedCommunicator> communicators;  ///< In the order in which ranks split them from their job's.
  /// Buffers for gathered units, largest first; empty if parameters are unsharded.
  std::vector<PlannedSlots> parameter_slots;
  std::vector<PlannedSlots> gradient_slots;   ///< Buffers for gradients that wait to be reduced, largest first.
  std::optional<int> most_units_in_a_bucket;  ///< Set only if zeroth.gradient_slots limits it.

  /// Hints for the user, one sentence each without a full stop, naming the key: that another stage would round
  /// differently, that many micro-steps accumulate in 16 bits, or that stage3_max_live_parameters leaves no prefetch.
  std::vector<std::string> notes;
  /// Why the same global batch is rounded differently on another number of ranks; empty if training is bitwise equal
  /// there.
  std::string other_ranks;

  /// `bytes` minus `padding`: the bytes of elements without alignment and equal shares.
  [[nodiscard]] MemoryBytes without_padding() const noexcept {
    return {bytes.parameters - padding.parameters, bytes.gradients - padding.gradients,
            bytes.optimizer - padding.optimizer, bytes.slots - padding.slots, bytes.scratch - padding.scratch};
  }
};

/// Plans an engine, for a rank with the tensor part that `model` was made for; all tensor ranks hold as much. Its cost
/// depends on the number of units and parameters, not on elements, so models may be of any size. For the bytes that a
/// step sends, which depend on how the engine runs it, see simulate::bytes_sent_per_step(). Throws ConfigError if the
/// file does not fit the world, the number of tensor ranks that the model was made for or, with a pipeline, the model;
/// ContractError if the model is too large for a pipeline or not supported by pipelines. Not collective.
[[nodiscard]] ZEROTH_EXPORT Plan plan(Model const& model, Config const& config, int world,
                                      PlanOptions const& options = {});

/// A plan as text: a table by category, and a line for every decision (slots, caps, dtypes).
[[nodiscard]] ZEROTH_EXPORT std::string explain_plan(Plan const& plan);

}  // namespace zeroth
