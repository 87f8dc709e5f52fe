// SPDX-License-Identifier: Apache-2.0
/// The connection on which this rank sends to another one. It connects on the first message.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "comm/store/connection.hpp"
#include "comm/store/socket.hpp"
#include "comm/tcp/fifo.hpp"
#include "comm/tcp/wire.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

struct Endpoint {
  std::string host;  ///< A numeric address, not a name.
  int port = 0;
};

/// A message: its head, and bytes that must not change until it is sent.
struct Piece {
  WireHead head;
  std::byte const* data = nullptr;
  Notice after{};  ///< Notified once the system has taken all of it, if set.
};

/// Used by one thread at a time; never waits.
class Outgoing {
 public:
  /// The connection breaks if the other machine is silent for longer than `silence`.
  Outgoing(Endpoint at, Handshake handshake, std::chrono::milliseconds silence)
      : at_{std::move(at)}, handshake_{std::move(handshake)}, silence_{silence} {}

  [[nodiscard]] int socket() const noexcept;
  [[nodiscard]] short events() const noexcept;
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;

  void enqueue(WireHead const& head, std::string words = {});
  /// Connects, performs the handshake, and sends the messages of enqueue() and of `next`, as much as the system
  /// accepts. Does not call `next` before the connection is open.
  void advance(Clock::time_point now, std::function<std::optional<Piece>()> const& next);
  void close() noexcept;

  [[nodiscard]] std::string where() const { return address_of(at_.host, at_.port); }
  /// Why the connection has ended; empty while it may succeed.
  [[nodiscard]] std::string const& problem() const noexcept { return problem_; }
  /// Whether the connection was open and was ended by the other side or the system, possibly because that rank has
  /// ended.
  [[nodiscard]] bool was_cut() const noexcept { return was_cut_; }

 private:
  enum class State : std::uint8_t { silent, connecting, handshake, open, over };
  struct Words {
    WireHead head;
    std::string text;
  };
  void dial(Clock::time_point now);
  void retry(Clock::time_point now, std::string const& why);
  void send_handshake();
  void read_answer(Clock::time_point now);
  void look_for_end();
  void send(std::function<std::optional<Piece>()> const& next);
  [[nodiscard]] bool take(std::function<std::optional<Piece>()> const& next);
  [[nodiscard]] bool send_some();
  void end(std::string const& why, bool cut);

  Endpoint at_;
  Handshake handshake_;
  std::chrono::milliseconds silence_;
  State state_ = State::silent;
  Descriptor socket_;
  std::optional<Connection> handshake_connection_;  ///< During the handshake.
  Fifo<Words> queued_;
  // the message being sent
  bool sending_ = false, stuck_ = false;
  std::array<char, wire_head_bytes> head_{};
  std::string text_;
  std::byte const* data_ = nullptr;
  std::size_t bytes_ = 0, sent_ = 0;
  Notice after_{};
  Clock::time_point try_again_{}, give_up_{}, first_try_{};
  bool has_warned_ = false, was_cut_ = false;
  std::string problem_;
};

}  // namespace zeroth::comm
