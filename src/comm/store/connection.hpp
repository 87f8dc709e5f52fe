// SPDX-License-Identifier: Apache-2.0
/// Messages over one socket, without waiting.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "comm/store/frame.hpp"
#include "comm/store/socket.hpp"

namespace zeroth::comm {

/// Used by one thread at a time.
class Connection {
 public:
  /// Accepts messages of at most `most_body_bytes`.
  Connection(Descriptor socket, std::size_t most_body_bytes) noexcept
      : socket_{std::move(socket)}, most_body_bytes_{most_body_bytes} {}

  [[nodiscard]] Descriptor const& socket() const noexcept { return socket_; }
  /// Gives up the socket, to continue without frames. All received bytes must have been frames, and all output must
  /// have been sent.
  [[nodiscard]] Descriptor release() && noexcept { return std::move(socket_); }
  /// The events for poll().
  [[nodiscard]] short events() const noexcept;
  void set_most_body_bytes(std::size_t bytes) noexcept { most_body_bytes_ = bytes; }

  /// Reads some of the received bytes. False at the end: the other side closed, or the connection broke. next() still
  /// returns what came before.
  [[nodiscard]] bool receive();
  [[nodiscard]] bool has_received() const noexcept { return received_any_; }
  /// The next complete message, or nullopt. Throws BadFrame if it is invalid or announces too many bytes.
  [[nodiscard]] std::optional<Frame> next();

  /// Queues a message and writes what the system accepts now. Drops it if the connection is broken.
  void send(Kind kind, std::uint64_t tag, std::string body);
  void send(Kind kind, std::uint64_t tag, std::shared_ptr<std::string const> body);  ///< Shared by many connections.
  void flush();
  [[nodiscard]] bool has_sent_all() const noexcept { return output_.empty(); }
  [[nodiscard]] std::size_t waiting_bytes() const noexcept { return waiting_bytes_; }

 private:
  struct Output {
    std::array<char, head_bytes> head;
    std::shared_ptr<std::string const> body;
    [[nodiscard]] std::size_t bytes() const noexcept { return head.size() + body->size(); }
  };
  void give_up_output() noexcept;

  Descriptor socket_;
  std::size_t most_body_bytes_;
  bool received_any_ = false;
  std::string input_;
  std::size_t consumed_ = 0;  // bytes of input_
  std::deque<Output> output_;
  std::size_t sent_ = 0;  // bytes of the first message in output_
  std::size_t waiting_bytes_ = 0;
};

}  // namespace zeroth::comm
