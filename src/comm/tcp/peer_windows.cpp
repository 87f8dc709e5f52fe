// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/peer_windows.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "comm/store/socket.hpp"
#include "core/large_pages.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

PeerWindows::~PeerWindows() { std::for_each(windows_.begin(), windows_.end(), unmap); }

void PeerWindows::unmap(Window const& window) noexcept {
  if (window.here != nullptr) {
    ::munmap(window.here, static_cast<std::size_t>(window.bytes));
  }
}

std::uint32_t PeerWindows::begin(std::uint64_t address, std::int64_t bytes) {
  std::scoped_lock const lock{mutex_};
  windows_.push_back({++begun_, own, address, bytes, nullptr});
  return begun_;
}

void PeerWindows::open(std::uint32_t number, int member, std::string const& path, std::uint64_t address,
                       std::int64_t bytes) {
  Descriptor const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) {
    throw SystemError{
        fmt::format("{}, memory that another rank registers, cannot be opened: {}", path, error_text(errno))};
  }
  void* const here = map_shared(file.get(), bytes, PROT_READ);
  if (here == MAP_FAILED) {
    throw SystemError{fmt::format("mmap of {} bytes that another rank registers: {}", bytes, error_text(errno))};
  }
  std::scoped_lock const lock{mutex_};
  windows_.push_back({number, member, address, bytes, static_cast<std::byte*>(here)});
}

void PeerWindows::end(std::uint32_t number) noexcept {
  std::scoped_lock const lock{mutex_};
  auto const gone =
      std::partition(windows_.begin(), windows_.end(), [number](Window const& each) { return each.number != number; });
  std::for_each(gone, windows_.end(), unmap);
  windows_.erase(gone, windows_.end());
}

std::uint32_t PeerWindows::number_of(std::uint64_t address, std::int64_t bytes) const {
  std::scoped_lock const lock{mutex_};
  auto const found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](Window const& each) { return each.member == own && each.has(address, bytes); });
  return found == windows_.end() ? 0 : found->number;
}

std::byte const* PeerWindows::find(std::uint32_t number, int member, std::uint64_t address, std::int64_t bytes) const {
  std::scoped_lock const lock{mutex_};
  auto const found = std::find_if(windows_.begin(), windows_.end(), [&](Window const& each) {
    return each.number == number && each.member == member && each.has(address, bytes);
  });
  return found == windows_.end() ? nullptr : found->here + (address - found->address);
}

}  // namespace zeroth::comm
