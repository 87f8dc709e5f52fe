// SPDX-License-Identifier: Apache-2.0
/// Tiles of what updates change on their way from where they are offloaded to an update and back.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/memory_plan.hpp"
#include "shard/moved_bytes.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// Where a state of a flat unit is in the storage, and what it is called.
struct StoredState {
  std::int64_t position = -1;        ///< Of the first element that is there; -1: there is no such state.
  std::int64_t in_memory_count = 0;  ///< Elements before that one.
  std::int64_t element_bytes = 0;
  std::string name;
};
using StoredStates = std::array<StoredState, most_updated>;

/// The tiles of a plan in turn, over and over: each is read where the plan's updates read, updated on the compute
/// stream, and written. Reads and writes have a stream each; the memory that a tile is written from is read into next.
/// A read waits for a write of an earlier update, a write for its update, an update for its own read: nothing goes
/// round in a circle, and no other rank is waited for.
class TileQueue {
 public:
  /// What it works with; all outlives it.
  struct Parts {
    device::Device* device = nullptr;
    device::Storage* storage = nullptr;
    device::Stream *reads = nullptr, *writes = nullptr;
    DiskPlan const* plan = nullptr;
    ById<FlatId, StoredStates> const* states = nullptr;
    Layout const* layout = nullptr;
    std::byte* memory = nullptr;
    bool reads_ahead = false, writes_behind = false;  ///< Otherwise in line with updates.
  };
  explicit TileQueue(Parts const& parts);

  /// Where the states of the next tile are, in the compute stream's order, until release().
  [[nodiscard]] std::array<std::byte*, most_updated> acquire();
  /// It is updated.
  void release();
  /// What was read ahead is not what will be there. Waits.
  void forget();
  /// Milliseconds that updates have been held up by reads and writes, in all; on a GPU as Stream::waited_ms(). No part
  /// of the compute stream's own waits.
  [[nodiscard]] double held_up_ms() const;
  [[nodiscard]] DiskTraffic const& traffic() const noexcept { return traffic_; }

 private:
  struct Buffer {
    std::byte* data = nullptr;
    std::unique_ptr<device::Event> ready, updated, free;
  };
  [[nodiscard]] Tile const& tile(std::int64_t number) const noexcept;
  [[nodiscard]] Buffer& buffer(std::int64_t number) noexcept;
  template <class F>
  void each_state(std::int64_t number, F const& move);
  void read(std::int64_t number);

  Parts parts_;
  std::unique_ptr<device::Stream> updates_;  // the compute stream, whose waits for tiles are counted by themselves
  std::vector<Buffer> buffers_;
  std::int64_t next_ = 0, read_ = 0;  // counted over all updates: to be acquired, to be read
  DiskTraffic traffic_;
};

}  // namespace zeroth::shard
