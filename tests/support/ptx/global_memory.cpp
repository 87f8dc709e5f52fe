// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/global_memory.hpp"

#include <algorithm>
#include <string>

namespace zeroth::testing::ptx {

void GlobalMemory::start(unsigned block) { since_barrier_ = Stamp{block} << block_shift | 1U; }

void GlobalMemory::barrier() { since_barrier_ += Stamp{1} << barrier_shift; }

std::byte* GlobalMemory::write(std::uint64_t address, std::size_t bytes, int thread) {
  auto* const data = at(address, bytes);
  Stamp const mine = since_barrier_ + static_cast<Stamp>(thread);
  auto& writers = writers_[address / line];
  for (auto i = address % line; i < address % line + bytes; ++i) {
    Stamp const other = writers[i];
    bool const ordered = other >> block_shift == mine >> block_shift && other >> barrier_shift != mine >> barrier_shift;
    if (other != 0 && other != mine && !ordered) {
      constexpr Stamp threads = (Stamp{1} << barrier_shift) - 1;
      throw Fault{"global address " + std::to_string(address) + " was also written by thread " +
                  std::to_string((other & threads) - 1) + " of block " + std::to_string(other >> block_shift)};
    }
    writers[i] = mine;
  }
  return data;
}

void GlobalMemory::look_up(std::uint64_t address, std::size_t bytes) {
  if (address % bytes != 0) {
    throw Fault{"global address " + std::to_string(address) + " is not a multiple of " + std::to_string(bytes)};
  }
  auto const holds = [&](Memory const& memory) { return memory.holds(address, bytes); };
  if (auto const known = std::ranges::find_if(found_, holds); known != found_.end()) {
    last_ = *known;
    return;
  }
  Memory const memory = find_(address);
  if (!holds(memory)) {
    throw Fault{"access to " + std::to_string(bytes) + " bytes at global address " + std::to_string(address) + ", " +
                (memory.bytes == 0
                     ? "which is in no allocation"
                     : std::to_string(address - memory.begin) + " into " + std::to_string(memory.bytes) + " bytes")};
  }
  last_ = memory;
  found_.push_back(memory);
}

}  // namespace zeroth::testing::ptx
