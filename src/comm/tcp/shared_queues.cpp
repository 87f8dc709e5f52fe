// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/shared_queues.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/bytes_at.hpp"
#include "core/counter.hpp"
#include "device/rank_fold.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::size_t line = 64;  // a cache line: waiting threads do not slow down working ones
constexpr std::uint32_t most_shown = 4;

/// The index of a queue among those that one rank shows the others.
std::size_t queue_of(int to, Tag tag) noexcept {
  return static_cast<std::size_t>(to) * tag_count + static_cast<std::size_t>(tag);
}

}  // namespace

struct SharedQueues::Row {
  alignas(line) EventCount event_count;
  std::atomic<bool> attached{false};
  std::atomic<std::uint32_t> withdrawn{0};  // 1: its rank does not allow reads of its memory any more
};

struct SharedQueues::Slot {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::uint32_t registration = 0;  // in PeerWindows; 0: none, so that data larger than `few` takes the network
  std::uint32_t outline = 0;
  alignas(16) std::array<std::byte, most_inline_bytes> few{};
};

/// Numbers count from 0, modulo 2^32.
struct SharedQueues::Queue {
  alignas(line) std::atomic<std::uint32_t> shown{0};
  alignas(line) std::atomic<std::uint32_t> taken{0};
  std::array<Slot, most_shown> slots;
};

std::size_t SharedQueues::bytes_of(int members) noexcept {
  auto const count = static_cast<std::size_t>(members);
  return count * sizeof(Row) + count * count * tag_count * sizeof(Queue);
}

// All bytes are initially zero, which is a valid empty queue and row.
SharedQueues::SharedQueues(int members, int me) : members_{members}, me_{me} {
  if (members > 1) {
    file_ = make_shared_file("zeroth queues", static_cast<std::int64_t>(bytes_of(members)));
  }
  map(file_);
}

SharedQueues::SharedQueues(SharedFile const& file, int members, int me) : members_{members}, me_{me} {
  map(open_shared(file, static_cast<std::int64_t>(bytes_of(members)), O_RDWR));
}

void SharedQueues::map(Descriptor const& file) {
  void* const pages = ::mmap(nullptr, bytes_of(members_), PROT_READ | PROT_WRITE,
                             file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file.get(), 0);
  if (pages == MAP_FAILED) {
    throw SystemError{fmt::format("mmap of {} bytes to share: {}", bytes_of(members_), error_text(errno))};
  }
  base_ = static_cast<std::byte*>(pages);
  needed_.resize(static_cast<std::size_t>(members_) * tag_count);
  row(me_).attached.store(true, std::memory_order_release);
}

SharedQueues::~SharedQueues() { ::munmap(base_, bytes_of(members_)); }

bool SharedQueues::all_attached() const noexcept {
  for (int member = 0; member < members_; ++member) {
    if (!row(member).attached.load(std::memory_order_acquire)) {
      return false;
    }
  }
  return true;
}

EventCount& SharedQueues::event_count() noexcept { return row(me_).event_count; }

SharedQueues::Row& SharedQueues::row(int member) const noexcept {
  return *std::launder(reinterpret_cast<Row*>(base_ + static_cast<std::size_t>(member) * sizeof(Row)));
}

SharedQueues::Queue& SharedQueues::queue(int from, int to, Tag tag) const noexcept {
  auto const index =
      (static_cast<std::size_t>(from) * static_cast<std::size_t>(members_) + static_cast<std::size_t>(to)) * tag_count +
      static_cast<std::size_t>(tag);
  return *std::launder(
      reinterpret_cast<Queue*>(base_ + static_cast<std::size_t>(members_) * sizeof(Row) + index * sizeof(Queue)));
}

SharedQueues::Shown SharedQueues::show(int to, Tag tag, void const* data, std::int64_t bytes,
                                       std::uint32_t outline) noexcept {
  auto& shown_here = queue(me_, to, tag);
  auto const number = shown_here.shown.load(std::memory_order_relaxed);
  if (number - shown_here.taken.load(std::memory_order_acquire) >= most_shown) {
    return Shown::full;
  }
  auto& slot = shown_here.slots[number % most_shown];
  auto& needed_here = needed_[queue_of(to, tag)];
  slot.address = reinterpret_cast<std::uint64_t>(data);
  slot.bytes = bytes;
  slot.outline = outline;
  slot.registration = bytes > most_inline_bytes ? windows_.number_of(slot.address, bytes) : 0;
  if (slot.registration != 0) {
    needed_here = number + 1;
  } else {
    if (has_taken(to, tag)) {
      needed_here = shown_here.taken.load(std::memory_order_relaxed);  // otherwise it seems ahead after 2^31 numbers
    }
    if (bytes <= most_inline_bytes) {
      std::copy_n(static_cast<std::byte const*>(data), bytes, slot.few.begin());
    }
  }
  shown_here.shown.store(number + 1, std::memory_order_release);
  bool const by_network = is_by_network(slot);
  row(to).event_count.notify();
  return by_network ? Shown::by_network : Shown::here;
}

bool SharedQueues::is_by_network(Slot const& slot) noexcept {
  return slot.bytes > most_inline_bytes && slot.registration == 0;
}

bool SharedQueues::has_taken(int to, Tag tag) const noexcept {
  return Counter::reached(queue(me_, to, tag).taken.load(std::memory_order_acquire), needed_[queue_of(to, tag)]);
}

SharedQueues::Slot const* SharedQueues::find(int from, Tag tag, std::uint32_t number, std::int64_t offset,
                                             std::int64_t bytes, bool last, std::uint32_t outline) const {
  auto const& theirs = queue(from, me_, tag);
  if (theirs.taken.load(std::memory_order_relaxed) != number ||
      !Counter::reached(theirs.shown.load(std::memory_order_acquire), number + 1)) {
    return nullptr;
  }
  auto const& slot = theirs.slots[number % most_shown];
  if (offset + bytes > slot.bytes || (last && offset + bytes != slot.bytes)) {
    throw WrongSize{slot.bytes};
  }
  if (outline != slot.outline) {
    throw WrongCollective{};
  }
  return &slot;
}

std::optional<std::byte const*> SharedQueues::borrow(int from, Tag tag, std::uint32_t number, std::int64_t offset,
                                                     std::int64_t bytes, bool last, std::uint32_t outline) {
  auto const* const slot = find(from, tag, number, offset, bytes, last, outline);
  if (slot == nullptr) {
    return std::nullopt;
  }
  if (is_by_network(*slot)) {
    return nullptr;
  }
  if (slot->bytes <= most_inline_bytes) {
    return slot->few.data() + offset;
  }
  auto const* const here =
      windows_.find(slot->registration, from, slot->address + static_cast<std::uint64_t>(offset), bytes);
  if (here == nullptr) {
    throw SystemError{
        fmt::format("another rank announced {} bytes at {} of registration {}, which does not contain them", bytes,
                    offset, slot->registration)};
  }
  return here;
}

bool SharedQueues::release(int from, Tag tag, std::uint32_t number) noexcept {
  auto& theirs = queue(from, me_, tag);
  if (theirs.slots[number % most_shown].registration != 0 && has_withdrawn(from)) {
    return false;
  }
  theirs.taken.store(number + 1, std::memory_order_release);
  row(from).event_count.notify();
  return true;
}

/// If the owner of the memory has freed it since the read, it withdrew it first, and the data read may be garbage.
bool SharedQueues::has_withdrawn(int from) const noexcept {
  // An addition of zero, unlike a load, cannot be reordered before the reads of the memory.
  return row(from).withdrawn.fetch_add(0, std::memory_order_seq_cst) != 0;
}

void SharedQueues::withdraw() noexcept { row(me_).withdrawn.store(1, std::memory_order_seq_cst); }

}  // namespace zeroth::comm
