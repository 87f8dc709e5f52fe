// SPDX-License-Identifier: Apache-2.0
/// What two ranks call the queues between them.
#pragma once
#include <atomic>
#include <compare>
#include <cstdint>
#include <string_view>

#include "comm/tcp/event_count.hpp"

namespace zeroth::comm {

/// Of one communicator: what is shown under one tag to one rank is taken by it in the same order, whatever happens
/// under others.
enum class Tag : std::uint8_t { blocks, messages, from_senders, from_receivers };
constexpr int tag_count = 4;

/// The end of the error about another rank that shows, or wants, the right number of bytes for another collective.
inline constexpr std::string_view in_another_collective =
    "is in another collective here: operation, dtype, operator, count or root differ. Do all ranks run the same "
    "program, at the same counts? CommOptions::check says what each rank does";

struct Channel {
  std::uint64_t communicator = 0;
  Tag tag = Tag::blocks;
  auto operator<=>(Channel const&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's own
};

/// Where a thread says that it is done with memory of a waiting one. Both outlive that.
struct Notice {
  std::atomic<bool>* done = nullptr;
  EventCount* event_count = nullptr;
  void give() const noexcept {
    EventCount& wakes = *event_count;  // who sees `done` may end what holds this
    done->store(true, std::memory_order_release);
    wakes.notify();
  }
};

}  // namespace zeroth::comm
