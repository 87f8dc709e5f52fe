// SPDX-License-Identifier: Apache-2.0
/// Sums the gradients of parameters whose uses are summed apart: from one sum per use to one of all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/memory.hpp"
#include "shard/moved_bytes.hpp"

namespace zeroth::shard {

/// Runs on the reduce stream.
class TiedSums {
 public:
  explicit TiedSums(Memory& memory);
  /// Call once every use's gradients of a step are reduced: replaces the tied parameter's gradient that the optimizer
  /// reads by the sum over its uses, added in the order of units. All stages that have it get the same bits. The ranks
  /// that have the same slice of it on those stages exchange their uses' sums. Computes block sums if its squares are
  /// counted here.
  void run();
  /// Bytes that a plan reserves for sums of other stages.
  [[nodiscard]] static std::int64_t scratch_bytes(Layout const& layout, PlanRequest const& request) noexcept;
  /// Bytes moved so far, over all ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return moved_; }

 private:
  [[nodiscard]] std::byte* sum_of(FlatId flat, std::int64_t first) const noexcept;
  void find_terms(Tie const& tie, Range piece);
  void exchange(Tie const& tie, Range piece, comm::Communicator& among);
  void tell(std::byte const* sum, std::int64_t count, Dtype dtype);
  void add_up(FlatId flat, Range piece);
  void leave_block_sums(FlatId flat);

  Memory* memory_;
  std::int64_t piece_count_;
  std::vector<std::byte*> terms_;  // addresses in a piece, by use
  std::vector<comm::Collective> transaction_;
  MovedBytes moved_;
};

}  // namespace zeroth::shard
