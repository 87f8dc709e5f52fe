// SPDX-License-Identifier: Apache-2.0
/// What an engine will hold, and how it will go about it: known without a job.
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

/// What a plan has to know that neither model nor file says.
struct PlanOptions {
  comm::Transport transport = comm::Transport::local;  ///< mpi stages what it reduces in memory of its own.
  DeviceKind device =
      DeviceKind::cpu;  ///< The memory of a CPU is the host's; beside a GPU's that is a tier of its own.
};

/// Buffers of one size, which units of up to that size take turns in.
struct PlannedSlots {
  int slots = 0;                    ///< Buffers.
  std::int64_t capacity_count = 0;  ///< Elements of each.
  std::int64_t flat_units = 0;      ///< That take turns in them.
};

/// Among whom an engine moves something.
struct PlannedCommunicator {
  std::string name;        ///< As messages call it.
  std::vector<int> ranks;  ///< Rank 0 and those that are in it with rank 0. Every rank is in one of this name.
};

/// What of the masters and the optimizer's states is in a tier beside the device's memory.
struct PlannedTier {
  std::int64_t bytes = 0;               ///< Of a rank's file, or of its pinned memory of the host. 0: nothing.
  std::int64_t read_bytes = 0;          ///< By a rank in a step, into the device's memory.
  std::int64_t written_bytes = 0;       ///< Likewise, from there.
  std::int64_t tiles = 0;               ///< That are updated one after the other.
  std::int64_t largest_tile_count = 0;  ///< Elements of one.
  int tiles_in_memory = 0;              ///< At once: of the device, or of the host where that updates.
  std::int64_t memory_bytes = 0;        ///< Of slots: what tiles take there.
};

/// Parameters that live on a disk.
struct PlannedParametersDisk {
  std::int64_t bytes = 0;  ///< Of a rank's file. 0: all are in memory.
  std::int64_t units = 0;  ///< Flat units that are there.
  /// By a rank in a step that follows another one: for gathers in declared order, and by updates where the parameters
  /// are the masters.
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;  ///< By updates of a step.
  std::int64_t buffer_count = 0;   ///< Elements of a buffer.
  int buffers = 0;                 ///< For gathers and updates.
  std::int64_t memory_bytes = 0;   ///< Of slots: what they take there.
};

/// Small parameters that every rank holds whole where the stage shards the others: by
/// zero_optimization.stage3_param_persistence_threshold.
struct PlannedPersistence {
  std::int64_t parameters = 0;  ///< How many.
  std::int64_t count = 0;       ///< Elements of them.
  std::int64_t bytes = 0;       ///< Of MemoryBytes::parameters: what they take, with their padding.
};

/// A stage of a pipeline.
struct PlannedStage {
  std::string first_unit;            ///< Of its units, by name.
  std::int64_t units = 0;            ///< How many it has.
  std::int64_t parameter_count = 0;  ///< Elements of its parameters.
  int in_flight = 0;                 ///< Micro-steps between forward and backward at the same time, at most.
  std::int64_t message_bytes = 0;    ///< Of slots: what messages from and to its neighbours lie in.
  MemoryBytes bytes;                 ///< What each of its ranks allocates, and its ledger then shows.
  MemoryBytes padding;               ///< Of `bytes`, as Plan::padding.
};

/// The same on every rank. With stages of a pipeline all that is a rank's is that of a rank of the stage whose ranks
/// allocate most; all that is the model's, checkpoints and notes are of all stages. A flat unit is what is gathered and
/// reduced together: a unit's own parameters, or one that several units use.
struct Plan {
  Settings settings;  ///< The file, resolved for this world and model.
  int world = 1;      ///< Ranks.
  /// That share states and batches: all, or those of a stage of a pipeline that have the same part of parameters.
  int data_ranks = 1;
  int tensor_ranks = 1;                 ///< That divide parameters among themselves.
  DeviceKind device = DeviceKind::cpu;  ///< Of each.

  std::int64_t parameter_count =
      0;  ///< Elements, those of tied parameters once, and those that tensor ranks divide all.
  /// Elements that one tensor rank has, with the padding of Cut::multiple; all of them where there is one rank.
  std::int64_t tensor_rank_count = 0;
  std::int64_t padded_count = 0;             ///< The latter with what alignment and equal shares add.
  std::int64_t units = 0;                    ///< Of the model.
  std::int64_t flat_units = 0;               ///< Of these units, those that several share once.
  std::string largest_flat_unit;             ///< By elements: what a slot has to hold.
  std::int64_t largest_flat_unit_count = 0;  ///< Its elements, without padding.

  MemoryBytes bytes;  ///< What a rank allocates, and its ledger then shows.
  /// Of `bytes`, what alignment costs parameters, gradients and optimizer. Zero for slots and scratch.
  MemoryBytes padding;
  std::vector<PlannedStage> pipeline;  ///< By stage, where there are several.
  std::size_t largest_stage = 0;       ///< Of these, the first one whose ranks allocate most.
  PlannedPersistence persistent;       ///< None where every rank holds all parameters anyway.
  PlannedTier host;  ///< Beside them: offload_optimizer "cpu" of a GPU. See AnyEngine::bytes_of_host().
  PlannedTier disk;  ///< Likewise: offload_optimizer "nvme".
  PlannedParametersDisk parameters_disk;  ///< Of parameters, likewise.
  /// Of both. See AnyEngine::bytes_on_disk().
  [[nodiscard]] std::int64_t bytes_on_disk() const noexcept { return disk.bytes + parameters_disk.bytes; }
  /// Of the states in a checkpoint, in all its files: what AnyEngine::save() writes. Headers and hashes come to it.
  std::int64_t checkpoint_bytes = 0;
  /// Of the host, on each rank, from its first save on: what of a checkpoint is on its way to the disk, as
  /// zeroth.checkpoint.buffer_bytes says. In no ledger; AnyEngine::staging_bytes() is what was taken.
  std::int64_t staging_bytes = 0;
  bool shards_parameters = false;                  ///< Stage 3. Otherwise every rank holds all of them.
  bool shards_gradients = false;                   ///< Stages 2 and 3. Otherwise every rank holds all of them.
  bool shards_optimizer = false;                   ///< Stages 1 to 3. Otherwise every rank holds all of its states.
  int parameter_ranks = 1;                         ///< That one copy is cut among: 1, those of a group, or all.
  int gradient_ranks = 1;                          ///< Likewise.
  int optimizer_ranks = 1;                         ///< Likewise.
  std::vector<PlannedCommunicator> communicators;  ///< In the order in which ranks split them from their job's.
  std::vector<PlannedSlots> parameter_slots;  ///< Where units are gathered to, largest first; none if they are whole.
  std::vector<PlannedSlots> gradient_slots;   ///< Where gradients wait to be reduced, as well.
  std::optional<int> most_units_in_a_bucket;  ///< Where zeroth.gradient_slots limits it.

  /// What the user should know, a sentence each, without a full stop: where another stage would round differently,
  /// where many micro-steps add up in 16 bits, where stage3_max_live_parameters leaves no prefetch. Each names the key.
  std::vector<std::string> notes;
  /// Why the same global batch has other roundings on another number of ranks; empty: it trains the same bits there.
  std::string other_ranks;

  /// `bytes` less `padding`: what elements take without alignment and equal shares.
  [[nodiscard]] MemoryBytes without_padding() const noexcept {
    return {bytes.parameters - padding.parameters, bytes.gradients - padding.gradients,
            bytes.optimizer - padding.optimizer, bytes.slots - padding.slots, bytes.scratch - padding.scratch};
  }
};

/// Of a rank with the tensor part that `model` was made for: all tensor ranks have as much. Arithmetic by units and
/// parameters, not by elements: models of any size. What a step sends depends on how the engine runs it:
/// simulate::bytes_sent_per_step(). Throws ConfigError if the file does not suit the world, the number of tensor ranks
/// that the model was made for or, with a pipeline, the model; ContractError if the model is too large for it or is
/// none that pipelines take. Not collective.
[[nodiscard]] ZEROTH_EXPORT Plan plan(Model const& model, Config const& config, int world,
                                      PlanOptions const& options = {});

/// A plan for people: a table by category, and a line for everything that was decided (slots, caps, dtypes).
[[nodiscard]] ZEROTH_EXPORT std::string explain_plan(Plan const& plan);

}  // namespace zeroth
