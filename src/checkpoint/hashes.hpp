// SPDX-License-Identifier: Apache-2.0
/// Checksums of written data: 64-bit XXH3 (https://github.com/Cyan4973/xxHash), which detects damage, not forgery.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace zeroth::checkpoint {

[[nodiscard]] std::uint64_t xxh3(std::span<std::byte const> bytes) noexcept;

/// Hashes every hashed_bytes of a file's data. The data may come in pieces of any size.
class HashTable {
 public:
  HashTable();
  ~HashTable();
  HashTable(HashTable const&) = delete;
  HashTable& operator=(HashTable const&) = delete;
  void add(std::span<std::byte const> bytes);
  /// Starts again.
  void clear() noexcept;
  /// The hashes of everything added since the start.
  [[nodiscard]] std::vector<std::uint64_t> finish();

 private:
  struct Hasher;
  std::unique_ptr<Hasher> hasher_;
  std::int64_t added_ = 0;  // bytes in the unfinished hash
  std::vector<std::uint64_t> hashes_;
};

}  // namespace zeroth::checkpoint
