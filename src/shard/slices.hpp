// SPDX-License-Identifier: Apache-2.0
/// A rank's own slices of all states that outlive a step, which together, of all ranks, are these states once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shard/memory.hpp"

namespace zeroth::shard {

/// Elements of a state that are on a disk: see DiskStates.
struct OnDisk {
  DiskStates* disk = nullptr;
  FlatId flat{};
  std::size_t state = 0;
  std::int64_t first = 0;
};

/// Of one state of a part: as many elements as the part's slices have, or all that this rank holds.
struct OwnSlice {
  std::string name;           ///< "master", "frozen", or as the optimizer calls it.
  std::byte* data = nullptr;  ///< Of those in memory.
  Dtype dtype = Dtype::fp32;
  std::int64_t in_memory_count = 0;  ///< The first ones of the slice.
  OnDisk rest{};                     ///< The others.
};

/// The same at every stage, wherever the states are held.
class Slices {
 public:
  explicit Slices(Memory& memory) noexcept : memory_{&memory} {}

  /// Of the trainable part: the master, then the optimizer's states. None where there is no such part.
  [[nodiscard]] std::vector<OwnSlice> trainable(FlatId flat) const;
  /// Of the frozen part: its compute copy. None where there is no such part.
  [[nodiscard]] std::vector<OwnSlice> frozen(FlatId flat) const;
  /// Once all ranks have written to their own slices: rounds masters to compute copies, and gathers what ranks hold
  /// of others. Collective. Waits. Copies in slots are not touched: see Parameters::drop_all().
  void spread();

 private:
  [[nodiscard]] OwnSlice updated(FlatId flat, std::size_t state, std::string name) const;
  [[nodiscard]] OwnSlice parameters(FlatId flat, bool trainable, std::string name) const;
  void round_master(FlatId flat, OwnSlice const& master);
  enum class Way : bool { read, write };
  void move(OwnSlice const& held, Range elements, std::byte* piece, Way way);
  void submit_gather(FlatId flat, Placement placement, std::span<comm::Collective const> transaction);
  void gather(FlatId flat, Part const& part, Placement placement, OwnSlice const& held);
  void gather_by_pieces(FlatId flat, Part const& part, Placement placement, OwnSlice const& held);

  Memory* memory_;
};

}  // namespace zeroth::shard
