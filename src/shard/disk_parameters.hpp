// SPDX-License-Identifier: Apache-2.0
/// Parameters that live on a disk: what gathers read of them, and what updates write.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shard/disk_states.hpp"
#include "shard/memory_plan.hpp"
#include "shard/moved_bytes.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// What a rank holds of flat units that are gathered comes from its file by pieces, through a ring of buffers: the read
/// stream fills them in the order of gathers, and the stream that gathers takes them from there. A read waits for the
/// writes of the last update, and for who took the piece that was in its buffer; nothing waits for another rank, and
/// nothing goes round in a circle.
class DiskParameters {
 public:
  /// Takes room on the disk, and the memory for buffers. All outlive it; `check` is as for DiskStates.
  DiskParameters(device::Device& device, Layout const& layout, MemoryPlan const& plan, PlanRequest const& request,
                 int place, std::function<void()> check);

  [[nodiscard]] bool has(FlatId flat) const noexcept { return plan_->flats[flat].parameters_on_disk >= 0; }
  /// Starts to read what bring() will be asked for, in that order, as far as buffers are free.
  void read_ahead(FlatId flat);
  /// Brings what this rank holds of `flat` to `trainable` and `frozen`, on `stream`.
  void bring(FlatId flat, device::Stream& stream, std::byte* trainable, std::byte* frozen);
  /// What was read ahead and not brought is not what will be asked for, or not what will be there.
  void forget() noexcept;
  /// Makes the compute stream wait until all of what bring() was asked for last of `flat` is in memory.
  void await(FlatId flat);

  /// Where the next tile of an update's trainable parameters is, until release(); see TileQueue.
  [[nodiscard]] std::byte* acquire() { return states_.acquire().front(); }
  void release() { states_.release(); }
  /// Where replicas each update a slice of what they hold: how they hand it to each other.
  void set_publish(TileQueue::Publish publish) { states_.set_publish(std::move(publish)); }
  /// All tiles of `flat` have been released.
  void note_updated(FlatId flat);

  /// Outside of passes, elements of a part of what this rank holds of `flat`: see DiskStates.
  [[nodiscard]] DiskStates& states() noexcept { return states_; }
  [[nodiscard]] DiskStates const& states() const noexcept { return states_; }
  /// Of the first element of a part, counted as DiskStates does.
  [[nodiscard]] std::int64_t first_of(FlatId flat, bool trainable) const noexcept;

  /// Milliseconds that updates and the compute stream's waits for gathers were held up by this rank's disk, in all. No
  /// part of the compute stream's own waits.
  [[nodiscard]] double held_up_ms() const { return states_.held_up_ms() + waits_->host_ms() + waits_->waited_ms(); }
  [[nodiscard]] DiskTraffic traffic() const noexcept;

 private:
  /// Of a part, that come in one buffer.
  struct Piece {
    bool trainable = true;
    Range elements;
  };
  /// How many there are of a flat unit's parts.
  struct Pieces {
    std::int64_t trainable = 0, frozen = 0;
    [[nodiscard]] std::int64_t all() const noexcept { return trainable + frozen; }
  };
  struct Buffer {
    std::span<std::byte> memory;
    std::unique_ptr<device::Event> ready, free;
  };
  [[nodiscard]] std::int64_t frozen_held(FlatId flat) const noexcept;
  [[nodiscard]] Pieces pieces(FlatId flat) const noexcept;
  [[nodiscard]] Piece piece(FlatId flat, std::int64_t number) const noexcept;
  [[nodiscard]] Buffer& buffer(std::int64_t number) noexcept;
  /// Reads of the flat unit that was begun last until all buffers are full. True if nothing of it is left.
  bool read_more();
  void read(FlatId flat, std::int64_t number);

  device::Device* device_;
  Layout const* layout_;
  MemoryPlan const* plan_;
  PlanRequest const* request_;
  DiskStates states_;
  std::vector<Buffer> buffers_;
  std::int64_t most_in_buffer_;          // elements
  std::int64_t read_ = 0, brought_ = 0;  // pieces so far, of all flat units
  std::vector<FlatId> ahead_;            // begun and not brought; all pieces of all but the last are read
  std::int64_t pieces_of_last_ = 0;      // that are read
  ById<FlatId, std::unique_ptr<device::Event>> written_, arrived_;
  std::unique_ptr<device::Stream> waits_;  // the compute stream, whose waits for pieces are counted by themselves
  std::int64_t read_bytes_ = 0;
};

}  // namespace zeroth::shard
