// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hashes.hpp"

#include <algorithm>

#include "checkpoint/xxh3_avx2.hpp"
#include "core/isa.hpp"
#include "zeroth/checkpoint/contents.hpp"

#define XXH_INLINE_ALL  // header only: nothing to link
#include <xxhash.h>

namespace zeroth::checkpoint {

namespace {

void update(XXH3_state_t& state, std::span<std::byte const> bytes) noexcept {
#if defined(ZEROTH_HAS_XXH3_AVX2)
  if (current_isa() != Isa::plain) {
    return xxh3_update_avx2(&state, bytes);
  }
#endif
  XXH3_64bits_update(&state, bytes.data(), bytes.size());
}

}  // namespace

std::uint64_t xxh3(std::span<std::byte const> bytes) noexcept {
#if defined(ZEROTH_HAS_XXH3_AVX2)
  if (current_isa() != Isa::plain) {
    return xxh3_avx2(bytes);
  }
#endif
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct HashTable::Hasher {
  XXH3_state_t state;
};

HashTable::HashTable() : hasher_{std::make_unique<Hasher>()} {
  XXH3_INITSTATE(&hasher_->state);
  clear();
}

void HashTable::clear() noexcept {
  XXH3_64bits_reset(&hasher_->state);
  added_ = 0;
  hashes_.clear();
}

HashTable::~HashTable() = default;

void HashTable::add(std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    auto const count = std::min(bytes.size(), static_cast<std::size_t>(hashed_bytes - added_));
    if (added_ == 0 && count == static_cast<std::size_t>(hashed_bytes)) {  // the faster implementation, if it can be
                                                                           // used
      hashes_.push_back(xxh3(bytes.first(count)));
    } else {
      update(hasher_->state, bytes.first(count));
      added_ += static_cast<std::int64_t>(count);
      if (added_ == hashed_bytes) {
        hashes_.push_back(XXH3_64bits_digest(&hasher_->state));
        XXH3_64bits_reset(&hasher_->state);
        added_ = 0;
      }
    }
    bytes = bytes.subspan(count);
  }
}

std::vector<std::uint64_t> HashTable::finish() {
  if (added_ > 0) {
    hashes_.push_back(XXH3_64bits_digest(&hasher_->state));
    added_ = 0;
  }
  return hashes_;
}

}  // namespace zeroth::checkpoint
