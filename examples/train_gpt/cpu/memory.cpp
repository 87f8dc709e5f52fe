// SPDX-License-Identifier: Apache-2.0
#include "cpu/memory.hpp"

#include <string>

#include <zeroth/core/error.hpp>

namespace gpt::cpu {

void* HostMemory::take(std::int64_t bytes) {
  constexpr std::int64_t line = 64;
  void* const data = std::aligned_alloc(line, static_cast<std::size_t>((bytes + line - 1) / line * line));
  if (data == nullptr && bytes > 0) {
    throw zeroth::SystemError{"out of memory: " + std::to_string(bytes) + " bytes for activations"};
  }
  return data;
}

}  // namespace gpt::cpu
