// SPDX-License-Identifier: Apache-2.0
/// Buffers that pieces of what is offloaded pass through.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// A ring of buffers. One stream fills a buffer, another one works on what is in it, and a third one empties it. A
/// buffer is filled once it was emptied, and each stream waits for the one before it: nothing goes round in a circle,
/// and no other rank is waited for. Pieces are counted from 0; who uses the queue knows what each is.
class SwapQueue {
 public:
  SwapQueue(device::Device& device, int buffers) {
    for (int i = 0; i < buffers; ++i) {
      buffers_.push_back({device.make_event(), device.make_event(), device.make_event()});
    }
  }

  /// How many pieces were filled, and how many of these were released.
  [[nodiscard]] std::int64_t filled() const noexcept { return filled_; }
  [[nodiscard]] std::int64_t released() const noexcept { return released_; }
  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(buffers_); }
  /// Is a buffer free, or will be in the order of its streams?
  [[nodiscard]] bool has_room() const noexcept { return filled_ - released_ < size(); }
  /// The buffer of a piece, below size().
  [[nodiscard]] std::int64_t buffer(std::int64_t piece) const noexcept { return piece % size(); }

  /// `transfer` fills the buffer of the next piece, on `stream`.
  template <class F>
  void fill(device::Stream& stream, F const& transfer) {
    auto const& at = events(filled_);
    stream.wait(*at.free);
    transfer();
    stream.record(*at.ready);
    ++filled_;
  }
  /// Makes `work` wait for the first piece that was not released.
  void acquire(device::Stream& work) { work.wait(*events(released_).ready); }
  /// `work` is done with that piece; then `transfer`, which is given the event that says so, empties its buffer.
  template <class F>
  void release(device::Stream& work, device::Stream& stream, F const& transfer) {
    auto const& at = events(released_);
    work.record(*at.used);
    stream.wait(*at.used);
    transfer(*at.used);
    stream.record(*at.free);
    ++released_;
  }
  /// Likewise, where nothing is to be done with the buffer.
  void release(device::Stream& work) { work.record(*events(released_++).free); }

  /// What was filled and not released is to be filled again.
  void forget() noexcept { filled_ = released_; }
  /// The next piece is the first one again, in the first buffer. All are released.
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
