// SPDX-License-Identifier: Apache-2.0
/// The hashes that a file of a checkpoint should have: of the table at its end a window is in memory, so that what a
/// file says of its size, which may be forged, takes none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::checkpoint {

/// For one thread at a time.
class SavedHashes {
 public:
  SavedHashes();
  /// Hash `first` of the table at byte `table_begin` of `file`, and those behind it, as many as `to` has room for: at
  /// most 512. `place` tells files apart, which may be open past the system's cache. Throws Unreadable.
  void read(InputFile const& file, int place, std::int64_t table_begin, std::int64_t first,
            std::span<std::uint64_t> to);
  /// The file of the same place may be another one from now on.
  void forget() noexcept { place_ = -1; }

 private:
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory_;
  int place_ = -1;
  std::int64_t begin_ = 0, end_ = 0;  // of the file's bytes that are there
};

}  // namespace zeroth::checkpoint
