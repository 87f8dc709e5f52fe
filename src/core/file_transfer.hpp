// SPDX-License-Identifier: Apache-2.0
/// Bytes between memory and open files: the one place that knows what calls of the system may do in between.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace zeroth {

/// What became of a transfer.
struct Transferred {
  std::size_t bytes = 0;     ///< Fewer than were asked for: at the end of the file, or where there is an error.
  int error = 0;             ///< errno; 0: none.
  bool left_direct = false;  ///< This transfer is the one that took the file to the system's cache.
};

/// Both go on where a call moves less, or is interrupted. Where a file that is open past the system's cache refuses a
/// place, a size or memory, because its disk has larger blocks or the rest of a piece is none, they take the cache.
[[nodiscard]] Transferred read_all(int descriptor, std::int64_t position, std::span<std::byte> memory) noexcept;
[[nodiscard]] Transferred write_all(int descriptor, std::int64_t position, std::span<std::byte const> memory) noexcept;

/// Is the system's cache of files gone round (O_DIRECT)?
[[nodiscard]] bool is_direct(int descriptor) noexcept;
/// From now on it is, where the file system lets it: false otherwise.
bool go_direct(int descriptor) noexcept;

}  // namespace zeroth
