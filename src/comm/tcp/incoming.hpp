// SPDX-License-Identifier: Apache-2.0
/// The connection on which another rank speaks to this one.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "comm/store/socket.hpp"
#include "comm/tcp/wire.hpp"

namespace zeroth::comm {

/// One thread at a time; nothing waits.
class Incoming {
 public:
  struct Takers {
    /// Where the `head.bytes` of a data message go, which may be nowhere if they are none. Throws BadFrame if none are
    /// wanted.
    std::function<std::byte*(WireHead const& head)> place;
    /// They have come, all of them; or a message that has only words, or nothing, has.
    std::function<void(WireHead const& head, std::string const& words)> whole;
  };

  Incoming() = default;
  explicit Incoming(Descriptor socket) noexcept : socket_{std::move(socket)} {}
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }

  /// Takes in some of what has come. Empty, or why there will be no more. Throws BadFrame, and what `takers` throw.
  [[nodiscard]] std::string advance(Takers const& takers);
  void close() noexcept { socket_ = {}; }

 private:
  Descriptor socket_;
  std::array<char, wire_head_bytes> head_bytes_{};
  std::size_t come_ = 0;  // of the head, and of what follows it
  WireHead head_;
  std::string words_;
  std::byte* to_ = nullptr;
};

}  // namespace zeroth::comm
