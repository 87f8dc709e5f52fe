// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/peer_windows.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "core/large_pages.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

PeerWindows::~PeerWindows() { std::for_each(windows_.begin(), windows_.end(), unmap); }

void PeerWindows::unmap(Window& window) noexcept {
  if (window.here != nullptr) {
    ::munmap(window.here, static_cast<std::size_t>(window.bytes));
    window.here = nullptr;
  }
}

void PeerWindows::map(Window& window) {
  auto const file = open_shared(window.file, window.bytes, O_RDONLY);
  void* const here = map_shared(file.get(), window.bytes, PROT_READ);
  if (here == MAP_FAILED) {
    throw SystemError{fmt::format("mmap of {} bytes that another rank registers: {}", window.bytes, error_text(errno))};
  }
  window.here = static_cast<std::byte*>(here);
}

std::uint32_t PeerWindows::begin(std::uint64_t address, std::int64_t bytes) {
  std::scoped_lock const lock{mutex_};
  windows_.push_back({++begun_, own, address, bytes, {}, nullptr});
  return begun_;
}

void PeerWindows::open(std::uint32_t number, int member, SharedFile const& file, std::uint64_t address,
                       std::int64_t bytes) {
  Window window{number, member, address, bytes, file, nullptr};
  map(window);
  std::scoped_lock const lock{mutex_};
  windows_.push_back(window);
}

void PeerWindows::end(std::uint32_t number) noexcept {
  std::scoped_lock const lock{mutex_};
  std::erase_if(windows_, [number](Window const& each) { return each.number == number && each.member == own; });
  for (auto& each : windows_) {
    if (each.number == number) {
      unmap(each);
    }
  }
}

std::uint32_t PeerWindows::number_of(std::uint64_t address, std::int64_t bytes) const {
  std::scoped_lock const lock{mutex_};
  auto const found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](Window const& each) { return each.member == own && each.has(address, bytes); });
  return found == windows_.end() ? 0 : found->number;
}

std::byte const* PeerWindows::find(std::uint32_t number, int member, std::uint64_t address, std::int64_t bytes) {
  std::scoped_lock const lock{mutex_};
  auto const found = std::find_if(windows_.begin(), windows_.end(), [&](Window const& each) {
    return each.number == number && each.member == member && each.has(address, bytes);
  });
  if (found == windows_.end()) {
    return nullptr;
  }
  if (found->here == nullptr) {
    map(*found);
  }
  return found->here + (address - found->address);
}

}  // namespace zeroth::comm
