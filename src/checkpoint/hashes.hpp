// SPDX-License-Identifier: Apache-2.0
/// What tells whether bytes are those that were written: XXH3 of 64 bits (https://github.com/Cyan4973/xxHash), which
/// finds damage, not forgery.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace zeroth::checkpoint {

[[nodiscard]] std::uint64_t xxh3(std::span<std::byte const> bytes) noexcept;

/// Of every hashed_bytes of a file's data, which comes in any pieces.
class HashTable {
 public:
  HashTable();
  ~HashTable();
  HashTable(HashTable const&) = delete;
  HashTable& operator=(HashTable const&) = delete;
  void add(std::span<std::byte const> bytes);
  /// Begins anew.
  void clear() noexcept;
  /// Of all that was added since.
  [[nodiscard]] std::vector<std::uint64_t> finish();

 private:
  struct Hasher;
  std::unique_ptr<Hasher> hasher_;
  std::int64_t added_ = 0;  // to the last one
  std::vector<std::uint64_t> hashes_;
};

}  // namespace zeroth::checkpoint
