// SPDX-License-Identifier: Apache-2.0
/// Buffers for pieces of offloaded data.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// A ring of buffers. One stream fills a buffer, another one works on its content, and a third one empties it. A buffer
/// is filled again once it is empty, and each stream waits for the one before it. So there is no cyclic wait, and no
/// wait for another rank. Pieces are numbered from 0; the user of the queue knows what each one is.
class SwapQueue {
 public:
  SwapQueue(device::Device& device, int buffers) {
    for (int i = 0; i < buffers; ++i) {
      buffers_.push_back({device.make_event(), device.make_event(), device.make_event()});
    }
  }

  /// How many pieces were filled, and how many of them were released.
  [[nodiscard]] std::int64_t filled() const noexcept { return filled_; }
  [[nodiscard]] std::int64_t released() const noexcept { return released_; }
  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(buffers_); }
  /// Whether a buffer is free, or will be in the order of its streams.
  [[nodiscard]] bool has_room() const noexcept { return filled_ - released_ < size(); }
  /// The buffer of a piece, below size().
  [[nodiscard]] std::int64_t buffer(std::int64_t piece) const noexcept { return piece % size(); }

  /// Calls `transfer` to fill the buffer of the next piece, on `stream`.
  template <class F>
  void fill(device::Stream& stream, F const& transfer) {
    auto const& at = events(filled_);
    stream.wait(*at.free);
    transfer();
    stream.record(*at.ready);
    ++filled_;
  }
  /// Makes `work` wait for the first unreleased piece.
  void acquire(device::Stream& work) { work.wait(*events(released_).ready); }
  /// Releases that piece after the work on `work`. `transfer`, which gets the event of that point, then empties its
  /// buffer.
  template <class F>
  void release(device::Stream& work, device::Stream& stream, F const& transfer) {
    auto const& at = events(released_);
    work.record(*at.used);
    stream.wait(*at.used);
    transfer(*at.used);
    stream.record(*at.free);
    ++released_;
  }
  /// Releases that piece, whose buffer need not be emptied.
  void release(device::Stream& work) { work.record(*events(released_++).free); }

  /// Discards pieces that were filled and not released: they are to be filled again.
  void forget() noexcept { filled_ = released_; }
  /// Restarts with the first piece, in the first buffer. All pieces must be released.
  void restart() noexcept { filled_ = released_ = 0; }

 private:
  struct Events {
    std::unique_ptr<device::Event> ready, used, free;
  };
  [[nodiscard]] Events const& events(std::int64_t piece) const noexcept {
    return buffers_[static_cast<std::size_t>(buffer(piece))];
  }

  std::vector<Events> buffers_;
  std::int64_t filled_ = 0, released_ = 0;
};

}  // namespace zeroth::shard
