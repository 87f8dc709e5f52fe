// SPDX-License-Identifier: Apache-2.0
/// The offloaded part of a rank's states: the optimizer's on a disk or, with a GPU, in host memory; or parameters on a
/// disk.
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

class Memory;

/// The position of a state of a flat unit in the storage, and its name.
struct StoredState {
  std::int64_t position = -1;        ///< The first element's position; -1 if there is no such state.
  std::int64_t in_memory_count = 0;  ///< Elements before that one.
  std::int64_t element_bytes = 0;
  std::string name;
  StoredSlices stored{};  ///< How it is divided into slices there. If there are several, all of its elements are there,
                          ///< and it is the only state.
  int own_slice = 0;      ///< The slice that this rank updates.

  /// The distance of `element` from the first one, in elements. Elements after all slices are at their own index.
  [[nodiscard]] std::int64_t distance(std::int64_t element) const noexcept {
    bool const in_slices = stored.slices > 1 && element < stored.slices * stored.count;
    return in_slices ? element / stored.count * stored.stride + element % stored.count : element;
  }
  /// How many of `count` elements from `element` on are contiguous.
  [[nodiscard]] std::int64_t in_a_row(std::int64_t element, std::int64_t count) const noexcept {
    bool const in_slices = stored.slices > 1 && element < stored.slices * stored.count;
    return in_slices ? std::min(count, stored.count - element % stored.count) : count;
  }
};
using StoredStates = std::array<StoredState, most_updated>;

/// A storage, the streams that transfer its data, and the queue of tiles that updates take in turn. Derived classes
/// decide where a tile is updated. For one thread, except where noted.
class OffloadedStates : public StateHome {
 public:
  /// The constructor's arguments. `device`, `layout`, `plan` and `offload` must outlive this.
  struct Parts {
    device::Device* device;
    Layout const* layout;
    DiskPlan const* plan;
    Offload const* offload;
    ById<FlatId, StoredStates> states;
    std::function<void()> check;                    ///< For the storage: see device::StorageOptions.
    char const* section;                            ///< The section of the stage file.
    char const *reads = "read", *writes = "write";  ///< Stream names in traces, distinct for each rank.
  };
  ~OffloadedStates() override;

  /// Processes elements in memory: `count` from `first` on, counted from the first requested one. Its work on the
  /// compute stream is waited for.
  using Use = std::function<void(std::byte* data, std::int64_t first, std::int64_t count)>;
  /// Outside of updates: `use` reads elements of a state of `flat`, counted from the first offloaded one. Does nothing
  /// on a device that holds no values.
  void look(FlatId flat, std::size_t state, Range elements, Use const& use);
  /// Like look(), and `use` may write. Call forget() before.
  void edit(FlatId flat, std::size_t state, Range elements, Use const& use);
  /// Call before the stored states change: drops what was read ahead for updates. Waits. Ranks whose part does not
  /// change call it as well, so that all ranks read the same amount.
  void forget();
  /// Call after factors of learning rates in the model's description have changed. Waits.
  virtual void follow_factors(Memory const& /*memory*/) {}
  /// An event after all writes enqueued so far, for other streams. Outside of updates.
  [[nodiscard]] device::Event const& written();

  /// The position of elements from `first` on, and their names for messages.
  [[nodiscard]] device::Stored stored(FlatId flat, std::size_t state, std::int64_t first) const noexcept;
  /// A separate window on `stream`, for another thread. Only one at a time.
  [[nodiscard]] DiskWindow window_on(device::Stream& stream) const noexcept;

  /// Total milliseconds that reads and writes have held up updates; on a GPU as Stream::waited_ms(). Not part of the
  /// compute stream's own waits.
  [[nodiscard]] virtual double held_up_ms() const;
  [[nodiscard]] DiskTraffic const& traffic() const noexcept { return traffic_; }
  [[nodiscard]] Tier tier() const noexcept { return parts_.plan->tier; }
  /// Bytes taken of that tier.
  [[nodiscard]] std::int64_t bytes_taken() const { return storage_->bytes_taken(); }
  /// A warning about the storage for the user, with the key that selected it; empty if there is none.
  [[nodiscard]] std::string warning() const;

 protected:
  /// Reserves the storage, and allocates the memory for tiles and buffers.
  explicit OffloadedStates(Parts parts);
  /// Ends the streams, which use members of derived classes. Call it in their destructors.
  void stop() noexcept;

  /// Transfer pieces on reads() or writes().
  void read(std::string_view unit, std::span<device::StoredPiece const> pieces);
  void write(std::string_view unit, std::span<device::StoredPiece const> pieces);

  [[nodiscard]] DiskPlan const& plan() const noexcept { return *parts_.plan; }
  [[nodiscard]] Offload const& offload() const noexcept { return *parts_.offload; }
  [[nodiscard]] StoredStates const& states(FlatId flat) const noexcept { return parts_.states[flat]; }
  [[nodiscard]] FlatUnit const& unit(FlatId flat) const noexcept { return parts_.layout->flats()[flat]; }
  [[nodiscard]] Tile const& tile(std::int64_t number) const noexcept;
  /// Memory of the device: whole tiles, then windows, then buffers of gathers.
  [[nodiscard]] std::byte* memory() const noexcept { return memory_->data(); }
  [[nodiscard]] std::span<std::byte> window_memory(int index) const noexcept;
  [[nodiscard]] device::Storage& storage() const noexcept { return *storage_; }
  [[nodiscard]] device::Stream& reads() const noexcept { return *reads_; }
  [[nodiscard]] device::Stream& writes() const noexcept { return *writes_; }
  /// The stream of updates by the host; null if there are none.
  [[nodiscard]] device::Stream* updates() const noexcept { return updates_.get(); }
  /// The compute stream; its waits for offloaded states are counted separately.
  [[nodiscard]] device::Stream& waits() const noexcept { return *waits_; }
  [[nodiscard]] SwapQueue& queue() noexcept { return queue_; }
  /// Writes edits to the storage, before it is read there.
  void close_window() { window_->close(); }

 private:
  void use(FlatId flat, std::size_t state, Range elements, Use const& use, bool edits);
  /// The stream that orders all changes of the storage.
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

/// The positions of offloaded optimizer states in the plan, and their names.
[[nodiscard]] ById<FlatId, StoredStates> stored_states(Layout const& layout, MemoryPlan const& plan,
                                                       PlanRequest const& request);

}  // namespace zeroth::shard
