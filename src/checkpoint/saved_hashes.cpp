// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saved_hashes.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "core/block_file.hpp"

namespace zeroth::checkpoint {
namespace {

constexpr auto window_bytes = std::size_t{64} << 10U;  // hashes of 8 GiB

std::byte* allocate_window() {
  auto* const memory = std::aligned_alloc(static_cast<std::size_t>(block_bytes), window_bytes);
  return memory != nullptr ? static_cast<std::byte*>(memory) : throw std::bad_alloc{};
}

}  // namespace

SavedHashes::SavedHashes() : memory_{allocate_window(), [](std::byte* memory) { std::free(memory); }} {}

void SavedHashes::read(InputFile const& file, int place, std::int64_t table_begin, std::int64_t first,
                       std::span<std::uint64_t> to) {
  auto const begin = table_begin + first * static_cast<std::int64_t>(sizeof(std::uint64_t));
  auto const end = begin + static_cast<std::int64_t>(to.size_bytes());
  if (place != place_ || begin < begin_ || end > end_) {
    place_ = -1;
    begin_ = begin / block_bytes * block_bytes;
    end_ = begin_ + static_cast<std::int64_t>(file.read_some(begin_, {memory_.get(), window_bytes}));
    if (end > end_) {
      throw Unreadable{"has become shorter"};
    }
    place_ = place;
  }
  std::memcpy(to.data(), memory_.get() + (begin - begin_), to.size_bytes());
}

}  // namespace zeroth::checkpoint
