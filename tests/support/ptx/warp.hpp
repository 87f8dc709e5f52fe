// SPDX-License-Identifier: Apache-2.0
/// 32 threads that execute together as long as they are at the same instruction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/ptx/kernel.hpp"

namespace zeroth::testing::ptx {

class Block;

/// Lanes that are at different instructions run one group after the other, the one that is behind first; groups that
/// come to the same instruction are one again.
class Warp {
 public:
  Warp(Block& block, int index);

  void start();
  /// Until all lanes have ended, or all wait at a barrier: then the instruction, which is passed.
  [[nodiscard]] std::optional<std::uint32_t> run();

  [[nodiscard]] Block& block() const { return *block_; }
  [[nodiscard]] std::byte* registers() { return registers_.data(); }
  [[nodiscard]] Lanes predicate(Slot slot) const;
  /// Of `lanes`; the others keep theirs.
  void set_predicate(Slot slot, Lanes lanes, Lanes values);
  /// Of the block.
  [[nodiscard]] int thread_of(int lane) const { return index_ * warp_lanes + lane; }
  /// Where an address operand points, offset included.
  [[nodiscard]] std::uint64_t address(Instruction const& instruction, std::size_t operand, int lane) const;
  /// "line 12 of the PTX (add.s32 %r1, %r2, %r3)": what is executed.
  [[nodiscard]] std::string where() const;

 private:
  struct Group {
    std::uint32_t at = 0;
    Lanes lanes = 0;
    bool waits = false;  ///< For the other lanes.
  };
  enum class Progress { ended, waits, barrier };

  /// The group that is behind most, of those that need not wait; it is taken out.
  [[nodiscard]] Group take();
  void add(Group const& group);
  /// Where the next of the other groups is.
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
