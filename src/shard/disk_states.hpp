// SPDX-License-Identifier: Apache-2.0
/// That part of a rank's states which is offloaded: of the optimizer's to a disk, or to the host's memory beside a GPU,
/// or of the parameters to a disk.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "shard/disk_window.hpp"
#include "shard/host_queue.hpp"
#include "shard/memory_plan.hpp"
#include "shard/tile_queue.hpp"

namespace zeroth::shard {

/// As traces show them: no two streams of a rank have one name.
struct StreamNames {
  char const *reads = "read", *writes = "write";
};

/// For one thread, but for what it says of others.
class DiskStates {
 public:
  /// Takes room there, and the memory for tiles and buffers. `layout`, `plan` and `device` outlive it. `check` is the
  /// storage's: see device::StorageOptions.
  DiskStates(device::Device& device, Layout const& layout, DiskPlan const& plan, Offload const& offload,
             ById<FlatId, StoredStates> states, std::function<void()> check, StreamNames const& names = {});
  DiskStates(DiskStates const&) = delete;
  DiskStates& operator=(DiskStates const&) = delete;
  ~DiskStates();

  /// Where the next tile's states are, as TileQueue::acquire().
  [[nodiscard]] std::array<std::byte*, most_updated> acquire();
  void release() { queue_->release(); }
  void set_publish(TileQueue::Publish publish) { queue_->set_publish(std::move(publish)); }
  /// Who updates instead where the host does; null otherwise.
  [[nodiscard]] HostQueue* host() noexcept { return host_ ? &*host_ : nullptr; }

  /// What is done with elements in memory: those from `first` on, counted from the first that was asked for.
  using Use = std::function<void(std::byte* data, std::int64_t first, std::int64_t count)>;
  /// Outside of updates: `use` reads elements of a state of `flat`, counted from the first that is on the disk.
  void look(FlatId flat, std::size_t state, Range elements, Use const& use);
  /// Likewise, and `use` may write. Behind forget().
  void edit(FlatId flat, std::size_t state, Range elements, Use const& use);
  /// What is there is about to change: drops what was read ahead for updates. Waits. Ranks whose part does not change
  /// call it as well, so that all read as much.
  void forget();
  /// From when on, on another stream, all is on the disk that is known here so far. Outside of updates.
  [[nodiscard]] device::Event const& written();

  /// Where elements are, from `first` on, and what they are called.
  [[nodiscard]] device::Stored stored(FlatId flat, std::size_t state, std::int64_t first) const noexcept;
  /// Of a storage that is memory, where elements of `flat` are, from `first` on, as TileQueue::acquire().
  [[nodiscard]] std::array<std::byte*, most_updated> resident(FlatId flat, std::int64_t first) const noexcept;
  /// A window of its own, on `stream`, for another thread. There is one at a time.
  [[nodiscard]] DiskWindow window_on(device::Stream& stream) const noexcept;

  /// As the queue's.
  [[nodiscard]] double held_up_ms() const { return host_ ? host_->held_up_ms() : queue_->held_up_ms(); }
  [[nodiscard]] DiskTraffic const& traffic() const noexcept { return host_ ? host_->traffic() : queue_->traffic(); }
  [[nodiscard]] Tier tier() const noexcept { return plan_->tier; }
  /// Of that tier.
  [[nodiscard]] std::int64_t bytes_taken() const { return storage_->bytes_taken(); }
  [[nodiscard]] std::string_view warning() const noexcept { return storage_->warning(); }

  /// For who reads beside updates, once what edits wrote is on the disk: the storage, streams in whose order reads come
  /// and writes go, and memory for each of the plan's gather buffers.
  [[nodiscard]] device::Storage& storage() {
    window_->close();
    return *storage_;
  }
  [[nodiscard]] device::Stream& reads() const noexcept { return *reads_; }
  [[nodiscard]] device::Stream& writes() const noexcept { return *writes_; }
  [[nodiscard]] std::span<std::byte> gather_buffer(int index) const noexcept;

 private:
  void use(FlatId flat, std::size_t state, Range elements, Use const& use, bool edits);
  [[nodiscard]] std::span<std::byte> window_memory(int index) const noexcept;
  /// In whose order what is there changes.
  [[nodiscard]] device::Stream& changes() const noexcept { return updates_ != nullptr ? *updates_ : *writes_; }

  Layout const* layout_;
  DiskPlan const* plan_;
  ById<FlatId, StoredStates> states_;
  std::unique_ptr<device::Memory> memory_;
  std::unique_ptr<device::Storage> storage_;
  std::unique_ptr<device::Event> written_;
  std::unique_ptr<device::Stream> reads_, writes_, updates_;  // the last one of the host's updates, or null
  std::optional<TileQueue> queue_;                            // one of these two
  std::optional<HostQueue> host_;
  std::optional<DiskWindow> window_;
};

/// Where the plan has the optimizer's states on their disk, and what they are called.
[[nodiscard]] ById<FlatId, StoredStates> stored_states(MemoryPlan const& plan, PlanRequest const& request);

}  // namespace zeroth::shard
