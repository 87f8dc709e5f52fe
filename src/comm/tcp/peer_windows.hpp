// SPDX-License-Identifier: Apache-2.0
/// Registered memory of one communicator: mappings of the memory of other ranks on this machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "comm/tcp/shared_file.hpp"

namespace zeroth::comm {

/// Registrations are numbered from 1 on, the same on all ranks. A rank that shows memory sends the number of its
/// registration. It sends 0 once the registration has ended on its side, since the address may belong to other memory
/// by then. Ranks are numbered as in SharedQueues. Any thread may call any function.
class PeerWindows {
 public:
  PeerWindows() = default;
  ~PeerWindows();
  PeerWindows(PeerWindows const&) = delete;
  PeerWindows& operator=(PeerWindows const&) = delete;

  /// Begins a registration of `bytes` of this rank at `address`. Returns its number.
  [[nodiscard]] std::uint32_t begin(std::uint64_t address, std::int64_t bytes);
  /// Maps `file` read-only: the memory that `member` has registered as number `number`. Throws SystemError.
  void open(std::uint32_t number, int member, SharedFile const& file, std::uint64_t address, std::int64_t bytes);
  /// Ends a registration on this side. If other ranks still show memory of it, that is mapped again.
  void end(std::uint32_t number) noexcept;

  /// The number of the registration of this rank's memory; 0 if there is none.
  [[nodiscard]] std::uint32_t number_of(std::uint64_t address, std::int64_t bytes) const;
  /// The address in this process of `bytes` at `address` of `member`, in registration `number`; null if this process
  /// does not map them. Throws SystemError if it did, but cannot map them again.
  [[nodiscard]] std::byte const* find(std::uint32_t number, int member, std::uint64_t address, std::int64_t bytes);

 private:
  static constexpr int own = -1;
  struct Window {
    std::uint32_t number = 0;
    int member = own;
    std::uint64_t address = 0;
    std::int64_t bytes = 0;
    SharedFile file{};
    std::byte* here = nullptr;  ///< Null: this rank's own memory, or ended here.

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
