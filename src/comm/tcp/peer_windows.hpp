// SPDX-License-Identifier: Apache-2.0
/// Registered memory of one communicator: what its ranks on this machine map of each other's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "comm/tcp/shared_file.hpp"

namespace zeroth::comm {

/// Registrations have numbers from 1 on, the same on all ranks. Who shows memory says of which registration it is, and
/// of none once that has ended on its side: an address may have become another memory's since. Ranks are numbered as in
/// SharedQueues. Any thread may call anything.
class PeerWindows {
 public:
  PeerWindows() = default;
  ~PeerWindows();
  PeerWindows(PeerWindows const&) = delete;
  PeerWindows& operator=(PeerWindows const&) = delete;

  /// Begins a registration, of `bytes` of this rank at `address`. Returns its number.
  [[nodiscard]] std::uint32_t begin(std::uint64_t address, std::int64_t bytes);
  /// Maps `file`, to be read: it is what `member` has registered with number `number`. Throws SystemError.
  void open(std::uint32_t number, int member, SharedFile const& file, std::uint64_t address, std::int64_t bytes);
  /// Ends a registration on this side. What others still show of it is mapped again then.
  void end(std::uint32_t number) noexcept;

  /// The registration of memory of this rank; 0 if there is none.
  [[nodiscard]] std::uint32_t number_of(std::uint64_t address, std::int64_t bytes) const;
  /// Where `bytes` at `address` of `member`, of registration `number`, are in this process; null if it does not map
  /// them. Throws SystemError where it did, and cannot any more.
  [[nodiscard]] std::byte const* find(std::uint32_t number, int member, std::uint64_t address, std::int64_t bytes);

 private:
  static constexpr int own = -1;
  struct Window {
    std::uint32_t number = 0;
    int member = own;
    std::uint64_t address = 0;
    std::int64_t bytes = 0;
    SharedFile file{};
    std::byte* here = nullptr;  ///< Null: this rank's own, or ended here.

    [[nodiscard]] bool has(std::uint64_t at, std::int64_t length) const noexcept {
      return at >= address && at - address + static_cast<std::uint64_t>(length) <= static_cast<std::uint64_t>(bytes);
    }
  };
  static void map(Window& window);
  static void unmap(Window& window) noexcept;

  mutable std::mutex mutex_;
  std::uint32_t begun_ = 0;
  std::vector<Window> windows_;
};

}  // namespace zeroth::comm
