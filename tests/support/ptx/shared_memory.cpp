// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/shared_memory.hpp"

#include <algorithm>
#include <string>

#include "support/ptx/launch.hpp"

namespace zeroth::testing::ptx {

SharedMemory::SharedMemory(std::size_t bytes)
    : bytes_(bytes), readers_((bytes + unit - 1) / unit), writers_(readers_.size()) {}

void SharedMemory::start() {
  std::ranges::fill(bytes_, std::byte{0xff});
  std::ranges::fill(readers_, Stamp{0});
  std::ranges::fill(writers_, Stamp{0});
  since_barrier_ = stamp_threads;
}

void SharedMemory::barrier() {
  since_barrier_ += stamp_threads;
  if (since_barrier_ > on_its_way - 2 * stamp_threads) {
    throw Fault{"more barriers than the checks of shared memory can count"};
  }
}

std::byte const* SharedMemory::read(std::uint64_t at, std::size_t bytes, int thread) {
  expect_inside(at, bytes);
  Stamp const mine = stamp(thread), first = since_barrier_, many = since_barrier_ + many_threads;
  Stamp const* const writers = writers_.data() + at / unit;
  Stamp* const readers = readers_.data() + at / unit;
  bool race = false;
  for (std::size_t i = 0; i < bytes / unit; ++i) {
    race |= writers[i] >= first && writers[i] != mine;
    readers[i] = readers[i] >= first && readers[i] != mine ? many : mine;
  }
  if (race) {
    report(at, bytes, mine);
  }
  return bytes_.data() + at;
}

std::byte* SharedMemory::write(std::uint64_t at, std::size_t bytes, int thread) {
  expect_inside(at, bytes);
  Stamp const mine = stamp(thread), first = since_barrier_;
  Stamp* const writers = writers_.data() + at / unit;
  Stamp const* const readers = readers_.data() + at / unit;
  bool race = false;
  for (std::size_t i = 0; i < bytes / unit; ++i) {
    race |= (writers[i] >= first && writers[i] != mine) || (readers[i] >= first && readers[i] != mine);
  }
  if (race) {
    report(at, bytes, mine);
  }
  std::fill_n(writers, bytes / unit, mine);
  return bytes_.data() + at;
}

void SharedMemory::expect(std::uint64_t at, std::size_t bytes, int thread) {
  std::fill_n(write(at, bytes, thread), bytes, std::byte{0xff});
  std::fill_n(writers_.begin() + static_cast<std::ptrdiff_t>(at / unit), bytes / unit, on_its_way);
}

std::byte* SharedMemory::arrive(std::uint64_t at, std::size_t bytes, int thread) {
  std::fill_n(writers_.begin() + static_cast<std::ptrdiff_t>(at / unit), bytes / unit, stamp(thread));
  return bytes_.data() + at;
}

void SharedMemory::expect_inside(std::uint64_t at, std::size_t bytes) const {
  if (bytes < unit || at % bytes != 0) {
    throw Fault{"shared address " + std::to_string(at) + " of " + std::to_string(bytes) + " bytes is not aligned"};
  }
  if (at > bytes_.size() || bytes > bytes_.size() - at) {
    throw Fault{"access to " + std::to_string(bytes) + " bytes at shared address " + std::to_string(at) + " of " +
                std::to_string(bytes_.size())};
  }
}

void SharedMemory::report(std::uint64_t at, std::size_t bytes, Stamp mine) const {
  for (auto i = at / unit; i < (at + bytes) / unit; ++i) {
    auto const place = " at shared address " + std::to_string(i * unit);
    if (writers_[i] == on_its_way) {
      throw Fault{"access to what cp.async has not brought yet," + place};
    }
    for (auto const* const stamps : {&writers_, &readers_}) {
      Stamp const other = (*stamps)[i];
      if (other >= since_barrier_ && other != mine) {
        bool const many = other == since_barrier_ + many_threads;
        throw Fault{"race with " + (many ? "several threads" : "thread " + std::to_string(other - since_barrier_)) +
                    (stamps == &writers_ ? ", which wrote" : " reading") + place};
      }
    }
  }
  throw Fault{"race in shared memory"};
}

}  // namespace zeroth::testing::ptx
