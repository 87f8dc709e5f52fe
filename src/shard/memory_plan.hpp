// SPDX-License-Identifier: Apache-2.0
/// Every byte that a rank will hold, computed before the first is allocated. Pure arithmetic.
#pragma once
#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "shard/layout.hpp"
#include "shard/placement.hpp"
#include "shard/places.hpp"
#include "shard/slots.hpp"
#include "shard/tiles.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/device/memory.hpp"

namespace zeroth::shard {

/// The input of a plan.
struct PlanRequest {
  Settings settings{};  ///< The stage file. The other members follow from it, the layout and the transport.
  Placements placements;
  Places places{1, 1};              ///< The ranks that the layout is cut for.
  TensorPart tensor;                ///< The part of cut parameters in the layout.
  bool sums_by_groups = false;      ///< Gradients are summed within groups, then over groups.
  bool several_reductions = false;  ///< A step has several, whose results are accumulated in separate memory.
  /// The reduction itself adds ranks' micro-steps to the sum one after another, in fp32. See Collective::sums.
  bool folds_into_sums = false;
  SlotCounts parameter_slots;  ///< No slots if parameters are whole.
  SlotCounts gradient_slots;   ///< No slots if gradients are whole.
  std::int64_t largest_bucket_count = 0;
  std::int64_t comm_staging_bytes = 0;
  bool on_gpu = false;  ///< Muon's workspace is larger there.
  int workers = 0;      ///< On a parameter server, the number of ranks whose gradients it adds up; otherwise 0.
  Offload offload;
  ParameterOffload offload_parameters;
};

/// Number of states that only updates read and change: the master, unless it is the parameters, then the optimizer's
/// states.
inline constexpr std::size_t most_updated = 1 + optim::most_kept_states;

/// Offsets of a flat unit's states, in bytes from the start of their category's memory. -1 if absent.
struct FlatOffsets {
  /// compute dtype; the whole or this rank's elements: trainable, then frozen; -1: on the disk
  std::int64_t parameters = -1;
  /// On the disk of parameters, in bytes: trainable, then frozen, which starts at a whole block; -1: in memory
  std::int64_t parameters_on_disk = -1;
  std::int64_t master = -1;  ///< master dtype, trainable; -1: the parameters are the master
  /// dtype of states, trainable; as many as the optimizer has, then -1
  std::array<std::int64_t, optim::most_kept_states> states = [] {
    std::array<std::int64_t, optim::most_kept_states> none{};
    none.fill(-1);
    return none;
  }();
  /// How many elements of master and states are in memory, from the first on. `on_disk` has the position of the first
  /// offloaded element, in bytes: of the master (-1 if the parameters are it), then of the states, then -1.
  std::int64_t in_memory_count = 0;
  std::array<std::int64_t, most_updated> on_disk = [] {
    std::array<std::int64_t, most_updated> none{};
    none.fill(-1);
    return none;
  }();
  std::int64_t gradient = -1;  ///< gradient dtype, trainable, whole; -1: in slots
  std::int64_t sums = -1;  ///< fp32, trainable, whole, of micro-steps; -1: backward accumulates, or there is only one
  std::int64_t reduced = -1;       ///< accumulation dtype, trainable; -1: in place, in `sums` or `gradient`
  std::int64_t delayed = -1;       ///< accumulation dtype, trainable: those of a step whose update is pending; -1:
                                   ///< updates are not delayed
  std::int64_t errors = -1;        ///< fp32, whole: errors of encoding by `sign`; -1: none
  std::int64_t slice_errors = -1;  ///< fp32, slice: the same for sums that this rank encodes; -1: none
  std::int64_t block_sums = -1;    ///< Index of the first partial sum of squares of this rank's slice; -1: none.
  /// In scratch: compute dtype, and gradient dtype, trainable; the whole. -1: guards return the memory itself.
  std::int64_t lent_parameters = -1, lent_gradient = -1;
};

/// The plan of offloaded optimizer states, or of offloaded parameters. The device's memory for them is in slots.
struct DiskPlan {
  Tier tier = Tier::disk;
  std::vector<Tile> tiles;         ///< In the order of updates.
  std::int64_t bytes = 0;          ///< Size of the file, or of the host's memory; 0: nothing is offloaded.
  std::int64_t read_bytes = 0;     ///< Bytes that a step's updates read into the device's memory; 0: they only write.
  std::int64_t written_bytes = 0;  ///< Bytes that a step's updates write from the device's memory.
  std::int64_t tile_bytes = 0;     ///< Memory of one tile.
  int tiles_in_memory = 0;         ///< Number of tiles in memory at the same time.
  int copies = 1;                  ///< Copies of a tile, if replicas exchange what they update: all are written.
  /// Position in the storage of the memory of tiles that the host updates: for each tile a gradient, then parameters.
  /// -1 if tiles are updated in the device's memory.
  std::int64_t host_tiles = -1;
  int gather_buffers = 0;         ///< Each as large as a tile: for what gathers read.
  std::int64_t window_bytes = 0;  ///< Size of each of two windows, for reads and writes outside of updates.
  /// Offset of each state in a tile's memory; if the host updates, those of the gradient and the parameters.
  std::array<std::int64_t, most_updated> in_tile{};
  /// The total size in slots.
  [[nodiscard]] std::int64_t memory_bytes() const noexcept {
    return host_tiles >= 0 ? 0 : buffers() * tile_bytes + windows * window_bytes;
  }
  /// Buffers as large as a tile.
  [[nodiscard]] int buffers() const noexcept { return tiles_in_memory * copies + gather_buffers; }
  static constexpr int windows = 2;  ///< One for the engine, one for saving.
};

struct MemoryPlan {
  MemoryBytes bytes;
  /// The part of `bytes` that alignment adds to parameters, gradients and optimizer: what exceeds this rank's even
  /// share of their elements, rounded up per part. Zero for slots and scratch, which are buffers and hold no state.
  MemoryBytes padding;
  ById<FlatId, FlatOffsets> flats;
  // scratch
  std::int64_t block_sums = 0, block_sum_count = 0;  ///< fp32
  std::int64_t counted_block_sums = 0;               ///< Number of block sums, from the first on, that count on this
                                                     ///< rank.
  std::int64_t scalars = 0;                          ///< See StepMemory.
  std::int64_t conversion = -1;                      ///< A bucket in the reduction dtype; -1: not needed.
  std::int64_t encoded_reduce = -1;                  ///< Encoded data that the reduce lane sends and receives; -1:
                                                     ///< none.
  std::int64_t encoded_gather = -1;                  ///< The same for the gather lane.
  std::int64_t tied = -1;                            ///< See TiedSums::scratch_bytes(); -1: not needed.
  /// See MatrixDirections: directions of this rank's elements, matrices of its home, workspace. -1: not needed.
  std::int64_t directions = -1;
  std::int64_t parameter_norms = -1;  ///< See ParameterNorms; -1: not needed.
  std::int64_t encoded_momenta = -1;  ///< See EncodedMomenta; -1: not needed.
  /// On a server, in the reduction dtype: one slice of each worker, and their sum; or if workers may be stale, all
  /// slices of each worker. -1: not needed.
  std::int64_t pushed = -1;
  std::int64_t comm_staging = 0, comm_staging_bytes = 0;
  std::int64_t transfer = 0, transfer_bytes = 0;  ///< A piece of a shard on its way to or from a file.
  // slots
  std::int64_t parameter_slots = 0, gradient_slots = 0;
  DiskPlan disk;             ///< For the optimizer's states.
  DiskPlan parameters_disk;  ///< For the parameters.
};

[[nodiscard]] MemoryPlan plan_memory(Layout const& layout, PlanRequest const& request);

/// Whether reductions happen in the memory that backward writes, where the optimizer then reads. That needs a reduction
/// without conversion and without accumulation.
[[nodiscard]] bool sums_in_place(PlanRequest const& request) noexcept;
/// Whether reductions themselves add ranks' micro-steps to the sums that the optimizer reads.
[[nodiscard]] bool folds(PlanRequest const& request) noexcept;

/// A rank's trainable parameters on its disk: slices of which each belongs to one rank's optimizer, this rank's and its
/// replicas'. So each slice is written separately.
struct StoredSlices {
  int slices = 1;
  std::int64_t count = 0;   ///< Elements of one slice.
  std::int64_t stride = 0;  ///< Elements from the start of one slice to that of the next: each begins a block.
};
[[nodiscard]] StoredSlices slices_on_disk(FlatUnit const& flat, PlanRequest const& request) noexcept;

/// Elements from the first trainable one to the first frozen one, if a rank's parameters of `flat` are on the disk.
[[nodiscard]] std::int64_t frozen_on_disk(FlatUnit const& flat, PlanRequest const& request) noexcept;

/// Bytes that a rank reads from its disk to gather parameters of `flat` that are there.
[[nodiscard]] std::int64_t bytes_read_to_gather(FlatUnit const& flat, PlanRequest const& request) noexcept;

/// Whether the optimizer encodes its first moments after some steps.
[[nodiscard]] inline bool encodes_momenta(Settings const& settings) noexcept {
  return std::holds_alternative<optim::OneBitAdam>(settings.update.rule);
}

/// Whether ranks keep what encoding loses of `flat`'s gradients or first moments.
[[nodiscard]] inline bool keeps_errors(FlatUnit const& flat, Settings const& settings) noexcept {
  return (settings.reduce_codec == Codec::sign || encodes_momenta(settings)) && flat.gradients().padded_count > 0;
}

/// The placement of `flat`'s parameters. A server has no more than it updates.
[[nodiscard]] inline Placement placement_of_parameters(FlatUnit const& flat, PlanRequest const& request) noexcept {
  return flat.persistent && request.workers == 0 ? Placement::whole : request.placements.parameters;
}

/// The elements of `part` that the rank at `place` holds under `placement`.
[[nodiscard]] Range held(Part const& part, Placement placement, Places const& places, int place) noexcept;

}  // namespace zeroth::shard
