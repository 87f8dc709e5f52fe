// SPDX-License-Identifier: Apache-2.0
/// Transfers between memory and open files. The only place that handles short, interrupted and rejected system calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace zeroth {

/// The result of a transfer.
struct Transferred {
  std::size_t bytes = 0;     ///< Fewer than requested: at the end of the file, or on an error.
  int error = 0;             ///< errno; 0 means success.
  bool left_direct = false;  ///< Whether this transfer switched the file to the system's cache.
};

/// Both continue after a short or interrupted call. A file opened with O_DIRECT may reject an offset, a size or memory,
/// because its disk has larger blocks or the last piece is not a whole block. They then switch the file to the cache.
[[nodiscard]] Transferred read_all(int descriptor, std::int64_t position, std::span<std::byte> memory) noexcept;
[[nodiscard]] Transferred write_all(int descriptor, std::int64_t position, std::span<std::byte const> memory) noexcept;

/// Whether the system's file cache is bypassed (O_DIRECT).
[[nodiscard]] bool is_direct(int descriptor) noexcept;
/// Bypasses the cache from now on. False if the file system does not allow it.
bool go_direct(int descriptor) noexcept;

}  // namespace zeroth
