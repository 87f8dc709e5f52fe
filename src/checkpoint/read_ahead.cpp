// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read_ahead.hpp"

#include <cstdint>
#include <utility>

namespace zeroth::checkpoint {

ReadAhead::ReadAhead(std::size_t count, std::span<std::byte> memory, Read read)
    : count_{count},
      memory_{memory.first(memory.size() / parts_in_memory), memory.subspan(memory.size() / parts_in_memory)},
      read_{std::move(read)} {
  for (std::size_t i = 0; i < parts_in_memory; ++i) {
    begin_next();
  }
}

void ReadAhead::begin_next() {
  if (begun_ < count_) {
    thread_.post([this, index = begun_] {
      auto const half = index % parts_in_memory;
      filled_[half] = read_(index, memory_[half]);
    });
    ++begun_;
  }
}

std::span<std::byte const> ReadAhead::next() {
  auto const index = taken_++;
  if (index > 0) {
    begin_next();  // reads into the half that this call gives back
  }
  thread_.wait(static_cast<std::int64_t>(index) + 1);
  return memory_[index % parts_in_memory].first(filled_[index % parts_in_memory]);
}

}  // namespace zeroth::checkpoint
