// SPDX-License-Identifier: Apache-2.0
/// The saved hashes of a checkpoint's files. Keeps only a window of the table in memory, so that the size in a file,
/// which may be forged, does not determine the memory used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::checkpoint {

/// Use it on one thread at a time.
class SavedHashes {
 public:
  SavedHashes();
  /// Reads up to 512 hashes into `to`, from hash `first` of the table at byte `table_begin` of `file`. `place`
  /// identifies the file, which may be open for direct I/O. Throws Unreadable.
  void read(InputFile const& file, int place, std::int64_t table_begin, std::int64_t first,
            std::span<std::uint64_t> to);
  /// Drops the window: the file of the same place may be another one from now on.
  void forget() noexcept { place_ = -1; }

 private:
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory_;
  int place_ = -1;
  std::int64_t begin_ = 0, end_ = 0;  // file bytes in the window
};

}  // namespace zeroth::checkpoint
