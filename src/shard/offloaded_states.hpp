// SPDX-License-Identifier: Apache-2.0
/// That part of a rank's states which is offloaded: of the optimizer's to a disk, or to the host's memory beside a GPU,
/// or of the parameters to a disk.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shard/disk_window.hpp"
#include "shard/home.hpp"
#include "shard/memory_plan.hpp"
#include "shard/moved_bytes.hpp"
#include "shard/swap_queue.hpp"

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

/// A storage, the streams that move what is there, and the queue of tiles that updates take in turn. Derived classes
/// say where a tile is updated. For one thread, but for what it says of others.
class OffloadedStates : public StateHome {
 public:
  /// What it is made of; `device`, `layout`, `plan` and `offload` outlive it.
  struct Parts {
    device::Device* device;
    Layout const* layout;
    DiskPlan const* plan;
    Offload const* offload;
    ById<FlatId, StoredStates> states;
    std::function<void()> check;                    ///< The storage's: see device::StorageOptions.
    char const* section;                            ///< Of the stage file.
    char const *reads = "read", *writes = "write";  ///< In traces, where no two streams of a rank have one name.
  };
  ~OffloadedStates() override;

  /// What is done with elements in memory: those from `first` on, counted from the first that was asked for. What it
  /// enqueues on the compute stream is waited for.
  using Use = std::function<void(std::byte* data, std::int64_t first, std::int64_t count)>;
  /// Outside of updates: `use` reads elements of a state of `flat`, counted from the first that is offloaded. Nothing
  /// happens on a device that holds no values.
  void look(FlatId flat, std::size_t state, Range elements, Use const& use);
  /// Likewise, and `use` may write. Behind forget().
  void edit(FlatId flat, std::size_t state, Range elements, Use const& use);
  /// What is there is about to change: drops what was read ahead for updates. Waits. Ranks whose part does not change
  /// call it as well, so that all read as much.
  void forget();
  /// From when on, on another stream, all is there that is known here so far. Outside of updates.
  [[nodiscard]] device::Event const& written();

  /// Where elements are, from `first` on, and what they are called.
  [[nodiscard]] device::Stored stored(FlatId flat, std::size_t state, std::int64_t first) const noexcept;
  /// A window of its own, on `stream`, for another thread. There is one at a time.
  [[nodiscard]] DiskWindow window_on(device::Stream& stream) const noexcept;

  /// Milliseconds that updates have been held up by reads and writes, in all; on a GPU as Stream::waited_ms(). No part
  /// of the compute stream's own waits.
  [[nodiscard]] virtual double held_up_ms() const;
  [[nodiscard]] DiskTraffic const& traffic() const noexcept { return traffic_; }
  [[nodiscard]] Tier tier() const noexcept { return parts_.plan->tier; }
  /// Of that tier.
  [[nodiscard]] std::int64_t bytes_taken() const { return storage_->bytes_taken(); }
  /// What the user should know of the storage, with the key that chose it; empty: nothing.
  [[nodiscard]] std::string warning() const;

 protected:
  /// Takes room, and the memory for tiles and buffers.
  explicit OffloadedStates(Parts parts);
  /// Ends the streams, which use what derived classes have: for their destructors.
  void stop() noexcept;

  /// Moves pieces on reads() or writes().
  void read(std::string_view unit, std::span<device::StoredPiece const> pieces);
  void write(std::string_view unit, std::span<device::StoredPiece const> pieces);

  [[nodiscard]] DiskPlan const& plan() const noexcept { return *parts_.plan; }
  [[nodiscard]] Offload const& offload() const noexcept { return *parts_.offload; }
  [[nodiscard]] StoredStates const& states(FlatId flat) const noexcept { return parts_.states[flat]; }
  [[nodiscard]] FlatUnit const& unit(FlatId flat) const noexcept { return parts_.layout->flats()[flat]; }
  [[nodiscard]] Tile const& tile(std::int64_t number) const noexcept;
  /// Memory of the device for whole tiles, then for `windows`, then for buffers of gathers.
  [[nodiscard]] std::byte* memory() const noexcept { return memory_->data(); }
  [[nodiscard]] std::span<std::byte> window_memory(int index) const noexcept;
  [[nodiscard]] device::Storage& storage() const noexcept { return *storage_; }
  [[nodiscard]] device::Stream& reads() const noexcept { return *reads_; }
  [[nodiscard]] device::Stream& writes() const noexcept { return *writes_; }
  /// Of updates by the host; null: there are none.
  [[nodiscard]] device::Stream* updates() const noexcept { return updates_.get(); }
  /// The compute stream, whose waits for what is offloaded are counted by themselves.
  [[nodiscard]] device::Stream& waits() const noexcept { return *waits_; }
  [[nodiscard]] SwapQueue& queue() noexcept { return queue_; }
  /// What edits wrote is in the storage: for who reads there.
  void close_window() { window_->close(); }

 private:
  void use(FlatId flat, std::size_t state, Range elements, Use const& use, bool edits);
  /// In whose order what is there changes.
  [[nodiscard]] device::Stream& changes() const noexcept { return updates_ != nullptr ? *updates_ : *writes_; }

  Parts parts_;
  std::unique_ptr<device::Memory> memory_;
  std::unique_ptr<device::Storage> storage_;
  std::unique_ptr<device::Event> written_;
  std::unique_ptr<device::Stream> reads_, writes_, updates_, waits_;
  SwapQueue queue_;
  std::optional<DiskWindow> window_;
  DiskTraffic traffic_;
};

/// Where the plan has the optimizer's states that are offloaded, and what they are called.
[[nodiscard]] ById<FlatId, StoredStates> stored_states(MemoryPlan const& plan, PlanRequest const& request);

}  // namespace zeroth::shard
