// SPDX-License-Identifier: Apache-2.0
/// Every byte that a rank will hold, before the first is allocated. Pure arithmetic.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "shard/layout.hpp"
#include "shard/placement.hpp"
#include "shard/places.hpp"
#include "shard/slots.hpp"
#include "shard/tiles.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/device/memory.hpp"

namespace zeroth::shard {

/// What a plan is made from.
struct PlanRequest {
  Settings settings{};  ///< All that the stage file says. What follows is made of it, the layout and the transport.
  Placements placements;
  Places places{1, 1};              ///< Of the ranks that the layout is cut for.
  TensorPart tensor;                ///< Which part of cut parameters the layout is of.
  bool sums_by_groups = false;      ///< Gradients are summed within groups, then over groups.
  bool several_reductions = false;  ///< In a step: then their results are summed up beside what backward writes.
  /// Ranks' micro-steps are added to the sum one after another, in fp32, by the reduction itself. See Collective::sums.
  bool folds_into_sums = false;
  SlotCounts parameter_slots;  ///< No slots where parameters are whole.
  SlotCounts gradient_slots;   ///< No slots where gradients are whole.
  std::int64_t largest_bucket_count = 0;
  std::int64_t comm_staging_bytes = 0;
  Offload offload;
  ParameterOffload offload_parameters;
};

/// What an update changes and nobody but it reads: the master, where it is not the parameters, then the rule's states.
inline constexpr std::size_t most_updated = 1 + optim::most_states;

/// Where a flat unit's states start, in bytes from the start of their category's memory. -1: there is none.
struct FlatOffsets {
  /// compute dtype; the whole or what this rank has: trainable, then frozen; -1: on the disk
  std::int64_t parameters = -1;
  /// On the disk of parameters, in bytes: trainable, then, from a whole block on, frozen; -1: in memory
  std::int64_t parameters_on_disk = -1;
  std::int64_t master = -1;  ///< master dtype, trainable; -1 where the parameters are the master
  /// dtype of states, trainable; as many as the rule keeps, then -1
  std::array<std::int64_t, optim::most_states> states = [] {
    std::array<std::int64_t, optim::most_states> none{};
    none.fill(-1);
    return none;
  }();
  /// Of master and states the elements that are in memory, the first ones; the others are offloaded: there begins the
  /// first of these, in bytes, of the master, -1 where the parameters are it, and of states, then -1.
  std::int64_t in_memory_count = 0;
  std::array<std::int64_t, most_updated> on_disk = [] {
    std::array<std::int64_t, most_updated> none{};
    none.fill(-1);
    return none;
  }();
  std::int64_t gradient = -1;    ///< gradient dtype, trainable, whole; -1: in slots
  std::int64_t sums = -1;        ///< fp32, trainable, whole: of micro-steps; -1: backward adds them up, or none does
  std::int64_t reduced = -1;     ///< accumulation dtype, trainable; -1: in place, in `sums` or `gradient`
  std::int64_t block_sums = -1;  ///< Index of the first partial sum of squares of this rank's slice; -1: none.
  /// In scratch: compute dtype, and gradient dtype, trainable; the whole. -1: guards hand out what is held.
  std::int64_t lent_parameters = -1, lent_gradient = -1;
};

/// Of the optimizer's states that are offloaded, or of parameters. The device's memory for them is in slots.
struct DiskPlan {
  Tier tier = Tier::disk;
  std::vector<Tile> tiles;         ///< In the order of updates.
  std::int64_t bytes = 0;          ///< Of the file, or of the host's memory; 0: there is none.
  std::int64_t read_bytes = 0;     ///< By updates of a step, into the device's memory; 0: they only write.
  std::int64_t written_bytes = 0;  ///< Likewise, from there.
  std::int64_t tile_bytes = 0;     ///< Memory of one.
  int tiles_in_memory = 0;         ///< At once.
  int copies = 1;                  ///< Of a tile, where replicas hand each other what they update: as many are written.
  /// Where in the storage the memory of tiles is, which the host updates: each is a gradient, then parameters. -1:
  /// tiles are updated in the device's memory.
  std::int64_t host_tiles = -1;
  int gather_buffers = 0;         ///< As large as a tile: for what gathers read.
  std::int64_t window_bytes = 0;  ///< Of each of two: for what is read and written outside of updates.
  /// Where in a tile's memory each state begins; of one that the host updates, the gradient and the parameters.
  std::array<std::int64_t, most_updated> in_tile{};
  /// All that they take of slots.
  [[nodiscard]] std::int64_t memory_bytes() const noexcept {
    return host_tiles >= 0 ? 0 : buffers() * tile_bytes + windows * window_bytes;
  }
  /// As large as a tile.
  [[nodiscard]] int buffers() const noexcept { return tiles_in_memory * copies + gather_buffers; }
  static constexpr int windows = 2;  ///< The engine's, and who saves has one.
};

struct MemoryPlan {
  MemoryBytes bytes;
  /// Of `bytes`, what alignment costs parameters, gradients and optimizer: more than this rank's even share of their
  /// elements, rounded up per part. Zero for slots and scratch, which are buffers and hold no state.
  MemoryBytes padding;
  ById<FlatId, FlatOffsets> flats;
  // scratch
  std::int64_t block_sums = 0, block_sum_count = 0;  ///< fp32
  std::int64_t counted_block_sums = 0;               ///< Of these the first ones: those that count on this rank.
  std::int64_t scalars = 0;                          ///< See StepMemory.
  std::int64_t conversion = -1;                      ///< A bucket in the reduction dtype; -1: not needed.
  std::int64_t gather = -1;                          ///< See Gatherer::scratch_bytes(); -1: not needed.
  std::int64_t tied = -1;                            ///< See TiedSums::scratch_bytes(); -1: not needed.
  std::int64_t comm_staging = 0, comm_staging_bytes = 0;
  std::int64_t transfer = 0, transfer_bytes = 0;  ///< A piece of a shard on its way to or from a file.
  // slots
  std::int64_t parameter_slots = 0, gradient_slots = 0;
  DiskPlan disk;             ///< Of the optimizer's states.
  DiskPlan parameters_disk;  ///< Of the parameters.
};

[[nodiscard]] MemoryPlan plan_memory(Layout const& layout, PlanRequest const& request);

/// Do reductions happen in what backward writes, where the optimizer reads them? If they leave nothing to convert or to
/// add up.
[[nodiscard]] bool sums_in_place(PlanRequest const& request) noexcept;
/// Do reductions themselves add ranks' micro-steps to what the optimizer will read?
[[nodiscard]] bool folds(PlanRequest const& request) noexcept;

/// Trainable parameters where a rank has them on the disk: slices that the optimizer of one rank each holds, this one's
/// and its replicas', so that each is written by itself.
struct StoredSlices {
  int slices = 1;
  std::int64_t count = 0;   ///< Elements of one.
  std::int64_t stride = 0;  ///< Elements from the first of one to the first of the next: each begins a block.
};
[[nodiscard]] StoredSlices slices_on_disk(FlatUnit const& flat, PlanRequest const& request) noexcept;

/// Elements from the first trainable one to the first frozen one, where a rank's parameters of `flat` are on the disk.
[[nodiscard]] std::int64_t frozen_on_disk(FlatUnit const& flat, PlanRequest const& request) noexcept;

/// What a rank reads of its disk where parameters of `flat` that are there are gathered.
[[nodiscard]] std::int64_t bytes_read_to_gather(FlatUnit const& flat, PlanRequest const& request) noexcept;

/// Where the parameters of `flat` live.
[[nodiscard]] inline Placement placement_of_parameters(FlatUnit const& flat, Placements const& placements) noexcept {
  return flat.persistent ? Placement::whole : placements.parameters;
}

/// The elements of `part` that the rank at `place` holds under `placement`.
[[nodiscard]] Range held(Part const& part, Placement placement, Places const& places, int place) noexcept;

}  // namespace zeroth::shard
