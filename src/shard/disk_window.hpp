// SPDX-License-Identifier: Apache-2.0
/// Any bytes of a storage, of a disk by way of a piece of memory that shows some of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// For one thread. Waits for the disk. Near places that come one after the other cost one transfer.
class DiskWindow {
 public:
  /// `stream` comes behind all that writes what is looked at. All outlive it. `memory` is whole blocks, as `bytes` of
  /// the storage are; none where the storage is memory itself.
  DiskWindow(device::Storage& storage, device::Stream& stream, std::span<std::byte> memory, std::int64_t bytes)
      : storage_{&storage}, stream_{&stream}, memory_{memory}, bytes_{bytes} {}

  /// What is done with `bytes` that are the `first` one of those asked for, and what follows it.
  using Use = std::function<void(std::byte* data, std::int64_t first, std::int64_t bytes)>;
  /// Calls `use` for pieces of `bytes` from `at` on, which need not be whole blocks.
  void look(device::Stored const& at, std::int64_t bytes, Use const& use) { each(at, bytes, use, false); }
  /// Likewise, and keeps what `use` has written.
  void edit(device::Stored const& at, std::int64_t bytes, Use const& use) { each(at, bytes, use, true); }
  /// Brings what was written to the disk, and shows nothing any more: others may write there now.
  void close();

 private:
  void each(device::Stored at, std::int64_t bytes, Use const& use, bool edits);
  void show(device::Stored const& at);

  device::Storage* storage_;
  device::Stream* stream_;
  std::span<std::byte> memory_;
  std::int64_t bytes_;
  device::Stored shown_{};        // what the window begins with
  std::int64_t shown_bytes_ = 0;  // 0: nothing
  bool edited_ = false;
};

}  // namespace zeroth::shard
