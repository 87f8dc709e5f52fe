// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/warp.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "support/ptx/block.hpp"
#include "support/ptx/forms.hpp"

namespace zeroth::testing::ptx {

Warp::Warp(Block& block, int index) : block_{&block}, index_{index} {}

void Warp::start() {
  auto const& kernel = block_->kernel;
  registers_ = kernel.registers;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    set_value(registers() + kernel.thread, lane, static_cast<std::uint32_t>(thread_of(lane)));
    set_value(registers() + kernel.block, lane, block_->index());
    set_value(registers() + kernel.threads, lane, block_->launch.threads);
    set_value(registers() + kernel.blocks, lane, block_->launch.blocks);
  }
  groups_ = {{0, all_lanes}};
}

Lanes Warp::predicate(Slot slot) const {
  Lanes lanes;
  std::memcpy(&lanes, registers_.data() + slot, sizeof(lanes));
  return lanes;
}

void Warp::set_predicate(Slot slot, Lanes lanes, Lanes values) {
  Lanes const merged = (predicate(slot) & ~lanes) | (values & lanes);
  std::memcpy(registers() + slot, &merged, sizeof(merged));
}

std::uint64_t Warp::address(Instruction const& instruction, std::size_t operand, int lane) const {
  std::byte const* const slot = registers_.data() + instruction.from[operand];
  std::uint64_t const base = instruction.address_bytes == sizeof(std::uint64_t) ? value_of<std::uint64_t>(slot, lane)
                                                                                : value_of<std::uint32_t>(slot, lane);
  return base + static_cast<std::uint64_t>(instruction.offset);
}

std::string Warp::where() const {
  auto const& origins = block_->kernel.origins;
  auto const& origin = origins[std::min<std::size_t>(now_, origins.size() - 1)];
  return "line " + std::to_string(origin.line) + " of the PTX (" + origin.text + ")";
}

std::optional<std::uint32_t> Warp::run() {
  while (!groups_.empty()) {
    Group group = take();
    switch (advance(group)) {
      case Progress::ended: break;
      case Progress::waits: add(group); break;
      case Progress::barrier: groups_ = {{group.at + 1, group.lanes}}; return group.at;
    }
  }
  return std::nullopt;
}

Warp::Group Warp::take() {
  auto const behind = std::ranges::min_element(
      groups_, [](Group const& a, Group const& b) { return a.waits != b.waits ? b.waits : a.at < b.at; });
  if (behind->waits && groups_.size() > 1) {
    now_ = behind->at;
    auto const other = block_->kernel.origins[groups_[behind == groups_.begin() ? 1 : 0].at];
    throw Fault{"lanes wait for others that wait at line " + std::to_string(other.line) + " (" + other.text + ")"};
  }
  Group const group{behind->at, behind->lanes};
  groups_.erase(behind);
  return group;
}

void Warp::add(Group const& group) {
  auto const there = std::ranges::find(groups_, group.at, &Group::at);
  if (there == groups_.end()) {
    groups_.push_back(group);
  } else {
    *there = {group.at, there->lanes | group.lanes};  // advance() checks whether they still wait
  }
}

std::uint32_t Warp::next_group() const {
  auto next = std::numeric_limits<std::uint32_t>::max();
  for (auto const& group : groups_) {
    next = std::min(next, group.at);
  }
  return next;
}

Lanes Warp::others() const {
  Lanes lanes = 0;
  for (auto const& group : groups_) {
    lanes |= group.lanes;
  }
  return lanes;
}

bool Warp::meet(Group& group) const {
  if ((group.lanes | others()) != group.lanes) {
    group.waits = true;
    return false;
  }
  if (group.lanes != all_lanes) {
    throw Fault{"lanes of the warp have ended that this instruction waits for"};
  }
  return true;
}

void Warp::branch(Group& group, Instruction const& instruction, Lanes taken) {
  if (taken == group.lanes) {
    group.at = instruction.target;
    return;
  }
  ++group.at;
  if (taken != 0) {
    group.lanes &= ~taken;
    add({instruction.target, taken});
  }
}

Warp::Progress Warp::advance(Group& group) {
  auto const& code = block_->kernel.code;
  for (bool alone = groups_.empty();;) {
    now_ = group.at;
    if (now_ >= code.size()) {
      throw Fault{"the kernel runs beyond its last instruction"};
    }
    auto const& instruction = code[now_];
    Lanes const guard = predicate(instruction.guard);
    Lanes const lanes = group.lanes & (instruction.unless ? ~guard : guard);
    switch (instruction.flow) {
      case Flow::next:
        if (lanes != 0) {
          instruction.execute(*this, instruction, lanes);
        }
        ++group.at;
        break;
      case Flow::branch:
        branch(group, instruction, lanes);
        alone = groups_.empty();
        if (!alone) {
          add(group);
          group = take();
        }
        continue;
      case Flow::end:
        group.lanes &= ~lanes;
        if (lanes != 0) {
          block_->copies.expect_committed(*this, lanes);
        }
        if (group.lanes == 0) {
          return Progress::ended;
        }
        ++group.at;
        break;
      case Flow::together:
        if (!meet(group)) {
          return Progress::waits;
        }
        instruction.execute(*this, instruction, lanes);
        ++group.at;
        break;
      case Flow::barrier: return meet(group) ? Progress::barrier : Progress::waits;
    }
    if (!alone && next_group() <= group.at) {
      add(group);
      group = take();
      alone = groups_.empty();
    }
  }
}

}  // namespace zeroth::testing::ptx
