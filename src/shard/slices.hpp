// SPDX-License-Identifier: Apache-2.0
/// A rank's own slices of all states that outlive a step. The slices of all ranks together are exactly one copy of
/// these states.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shard/held_state.hpp"
#include "shard/memory.hpp"

namespace zeroth::shard {

/// This rank's slice of one state of a part.
struct OwnSlice : HeldState {
  std::string name;  ///< "master", "frozen", or the optimizer's name of it.
};

/// The same at every stage, wherever the states are held.
class Slices {
 public:
  explicit Slices(Memory& memory) noexcept : memory_{&memory} {}

  /// The slices of the trainable part: the master, then the optimizer's states. Empty if there is no such part.
  [[nodiscard]] std::vector<OwnSlice> trainable(FlatId flat) const;
  /// The slice of the frozen part's compute copy. Empty if there is no such part.
  [[nodiscard]] std::vector<OwnSlice> frozen(FlatId flat) const;
  /// Call once all ranks have written to their own slices: rounds masters to compute copies, and gathers the slices of
  /// other ranks that this rank holds. Collective. Waits. Does not change copies in slots: see Parameters::drop_all().
  void spread();

 private:
  [[nodiscard]] std::int64_t before_own_slice(FlatId flat, Part const& part) const noexcept;
  void round_master(FlatId flat, HeldState const& master);
  void submit_gather(FlatId flat, Placement placement, std::span<comm::Collective const> transaction);
  void gather(FlatId flat, Part const& part, Placement placement, HeldState const& held);
  void gather_by_pieces(FlatId flat, Part const& part, Placement placement, HeldState const& held);

  Memory* memory_;
};

}  // namespace zeroth::shard
