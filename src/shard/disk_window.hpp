// SPDX-License-Identifier: Apache-2.0
/// Access to any bytes of a storage; bytes on a disk are shown through a piece of memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// Used by one thread. Waits for the disk. Successive accesses to nearby bytes cost one transfer.
class DiskWindow {
 public:
  /// `stream` must follow all work that writes the accessed bytes. All arguments must outlive this. `memory` is whole
  /// blocks, as is the storage of `bytes`; it is empty if the storage is memory itself.
  DiskWindow(device::Storage& storage, device::Stream& stream, std::span<std::byte> memory, std::int64_t bytes)
      : storage_{&storage}, stream_{&stream}, memory_{memory}, bytes_{bytes} {}

  /// Processes `bytes` bytes at `data`. The first of them is number `first` of the requested bytes.
  using Use = std::function<void(std::byte* data, std::int64_t first, std::int64_t bytes)>;
  /// Calls `use` for pieces of `bytes` bytes from `at` on, which need not be whole blocks.
  void look(device::Stored const& at, std::int64_t bytes, Use const& use) { each(at, bytes, use, false); }
  /// Like look(), and stores what `use` has written.
  void edit(device::Stored const& at, std::int64_t bytes, Use const& use) { each(at, bytes, use, true); }
  /// Writes changes to the disk and empties the window: others may write there now.
  void close();

 private:
  void each(device::Stored at, std::int64_t bytes, Use const& use, bool edits);
  void show(device::Stored const& at);

  device::Storage* storage_;
  device::Stream* stream_;
  std::span<std::byte> memory_;
  std::int64_t bytes_;
  device::Stored shown_{};        // start of the window
  std::int64_t shown_bytes_ = 0;  // 0: the window is empty
  bool edited_ = false;
};

}  // namespace zeroth::shard
