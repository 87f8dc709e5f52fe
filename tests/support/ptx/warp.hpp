// SPDX-License-Identifier: Apache-2.0
/// 32 threads that execute together while they are at the same instruction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/ptx/kernel.hpp"

namespace zeroth::testing::ptx {

class Block;

/// Lanes at different instructions run as groups one after the other, the group furthest behind first. Groups that
/// reach the same instruction are merged.
class Warp {
 public:
  Warp(Block& block, int index);

  void start();
  /// Runs until all lanes have ended, or all wait at a barrier. In the second case it returns the index of that
  /// instruction, and the next call continues after it.
  [[nodiscard]] std::optional<std::uint32_t> run();

  [[nodiscard]] Block& block() const { return *block_; }
  [[nodiscard]] std::byte* registers() { return registers_.data(); }
  [[nodiscard]] Lanes predicate(Slot slot) const;
  /// Sets it for `lanes`; the others keep their values.
  void set_predicate(Slot slot, Lanes lanes, Lanes values);
  /// Index in the block.
  [[nodiscard]] int thread_of(int lane) const { return index_ * warp_lanes + lane; }
  /// The address that an address operand evaluates to, including the offset.
  [[nodiscard]] std::uint64_t address(Instruction const& instruction, std::size_t operand, int lane) const;
  /// "line 12 of the PTX (add.s32 %r1, %r2, %r3)": the current instruction.
  [[nodiscard]] std::string where() const;

 private:
  struct Group {
    std::uint32_t at = 0;
    Lanes lanes = 0;
    bool waits = false;  ///< For the other lanes.
  };
  enum class Progress { ended, waits, barrier };

  /// Removes and returns the group furthest behind that need not wait.
  [[nodiscard]] Group take();
  void add(Group const& group);
  /// The instruction of the other group that is furthest behind.
  [[nodiscard]] std::uint32_t next_group() const;
  [[nodiscard]] Lanes others() const;
  /// Runs a group until it ends, waits or meets another.
  [[nodiscard]] Progress advance(Group& group);
  void branch(Group& group, Instruction const& instruction, Lanes taken);
  [[nodiscard]] bool meet(Group& group) const;

  Block* block_;
  int index_;
  std::vector<std::byte> registers_;
  std::vector<Group> groups_;
  std::uint32_t now_ = 0;
};

}  // namespace zeroth::testing::ptx
