// SPDX-License-Identifier: Apache-2.0
/// The connection on which another rank sends to this one.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "comm/store/socket.hpp"
#include "comm/tcp/wire.hpp"

namespace zeroth::comm {

/// Used by one thread at a time; never waits.
class Incoming {
 public:
  struct Takers {
    /// Returns the memory for the `head.bytes` of a data message; may be null for no bytes. Throws BadFrame if the data
    /// was not requested.
    std::function<std::byte*(WireHead const& head)> place;
    /// Called when all of them have arrived; or for a message that has only text, or no body.
    std::function<void(WireHead const& head, std::string const& words)> whole;
  };

  Incoming() = default;
  explicit Incoming(Descriptor socket) noexcept : socket_{std::move(socket)} {}
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }

  /// Reads some of the available bytes. Returns an empty string, or why the connection has ended. Throws BadFrame, and
  /// exceptions of `takers`.
  [[nodiscard]] std::string advance(Takers const& takers);
  void close() noexcept { socket_ = {}; }

 private:
  Descriptor socket_;
  std::array<char, wire_head_bytes> head_bytes_{};
  std::size_t come_ = 0;  // received bytes of the head and of its body
  WireHead head_;
  std::string words_;
  std::byte* to_ = nullptr;
};

}  // namespace zeroth::comm
