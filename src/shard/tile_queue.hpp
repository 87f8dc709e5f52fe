// SPDX-License-Identifier: Apache-2.0
/// Tiles of what updates change on their way from where they are offloaded to an update and back.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
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
  StoredSlices stored{};  ///< As what it is there. With more than one slice all of it is there, and the only state.
  int own_slice = 0;      ///< The one that this rank updates.

  /// From the first element to another one, in elements. What comes behind all slices is where it is.
  [[nodiscard]] std::int64_t distance(std::int64_t element) const noexcept {
    bool const in_slices = stored.slices > 1 && element < stored.slices * stored.count;
    return in_slices ? element / stored.count * stored.stride + element % stored.count : element;
  }
  /// How many elements are in a row from `element` on, where `count` are asked for.
  [[nodiscard]] std::int64_t in_a_row(std::int64_t element, std::int64_t count) const noexcept {
    bool const in_slices = stored.slices > 1 && element < stored.slices * stored.count;
    return in_slices ? std::min(count, stored.count - element % stored.count) : count;
  }
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

  /// Hands what this rank has updated to its replicas, and gets what they have: a tile's slices of so many bytes, one
  /// after the other, between two events.
  using Publish = std::function<void(Tile const& tile, std::byte* slices, std::int64_t bytes_of_each,
                                     device::Event& updated, device::Event& published)>;
  /// Where states are stored as slices of several ranks: called by release(), before all of them are written.
  void set_publish(Publish publish) { publish_ = std::move(publish); }

  /// Where the states of the next tile are, in the compute stream's order, until release().
  [[nodiscard]] std::array<std::byte*, most_updated> acquire();
  /// It is updated.
  void release();
  /// What was read ahead is not what will be there. Waits.
  void forget();
  /// Was anything read ahead, and not forgotten?
  [[nodiscard]] bool is_ahead() const noexcept { return read_ != next_; }
  /// Milliseconds that updates have been held up by reads and writes, in all; on a GPU as Stream::waited_ms(). No part
  /// of the compute stream's own waits.
  [[nodiscard]] double held_up_ms() const;
  [[nodiscard]] DiskTraffic const& traffic() const noexcept { return traffic_; }

 private:
  struct Buffer {
    std::byte* data = nullptr;
    std::unique_ptr<device::Event> ready, updated, published, free;
  };
  [[nodiscard]] Tile const& tile(std::int64_t number) const noexcept;
  [[nodiscard]] Buffer& buffer(std::int64_t number) noexcept;
  enum class Of : bool { own, all };
  [[nodiscard]] std::span<device::StoredPiece const> pieces(std::int64_t number, Of slices);
  [[nodiscard]] std::int64_t bytes_of_slice(std::int64_t number, StoredState const& state) const noexcept;
  void read(std::int64_t number);

  Parts parts_;
  std::unique_ptr<device::Stream> updates_;  // the compute stream, whose waits for tiles are counted by themselves
  std::vector<Buffer> buffers_;
  Publish publish_;
  std::int64_t next_ = 0, read_ = 0;         // counted over all updates: to be acquired, to be read
  std::vector<device::StoredPiece> pieces_;  // see pieces()
  DiskTraffic traffic_;
};

}  // namespace zeroth::shard
