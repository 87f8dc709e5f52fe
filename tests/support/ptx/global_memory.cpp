#include "support/ptx/global_memory.hpp"

#include <algorithm>
#include <string>

namespace zeroth::testing::ptx {

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
