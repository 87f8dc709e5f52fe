// SPDX-License-Identifier: Apache-2.0
/// Identifiers of the queues between two ranks.
#pragma once
#include <atomic>
#include <compare>
#include <cstdint>
#include <string_view>

#include "comm/tcp/event_count.hpp"

namespace zeroth::comm {

/// A tag of one communicator. A rank takes what another one shows it under one tag in the same order, independent of
/// other tags.
enum class Tag : std::uint8_t { blocks, messages, from_senders, from_receivers };
constexpr int tag_count = 4;

/// The end of the error about a rank that shows, or requests, the right number of bytes for another collective.
inline constexpr std::string_view in_another_collective =
    "is in another collective: operation, dtype, operator, count or root differ. Check that all ranks run the same "
    "program with the same counts; CommOptions::check reports what each rank does";

struct Channel {
  std::uint64_t communicator = 0;
  Tag tag = Tag::blocks;
  auto operator<=>(Channel const&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's own
};

/// Tells a waiting thread that its memory is no longer in use. Both members must outlive that.
struct Notice {
  std::atomic<bool>* done = nullptr;
  EventCount* event_count = nullptr;
  void give() const noexcept {
    EventCount& wakes = *event_count;  // a thread that sees `done` may destroy this object
    done->store(true, std::memory_order_release);
    wakes.notify();
  }
};

}  // namespace zeroth::comm
