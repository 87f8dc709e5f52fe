// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/outgoing.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::chrono::seconds patience_per_try{5};
constexpr std::chrono::milliseconds between_tries{100};

}  // namespace

int Outgoing::socket() const noexcept {
  return handshake_connection_ ? handshake_connection_->socket().get() : socket_.get();
}

short Outgoing::events() const noexcept {
  switch (state_) {
    case State::connecting: return POLLOUT;
    case State::handshake: return handshake_connection_->events();
    case State::open: return static_cast<short>(POLLIN | (stuck_ ? POLLOUT : 0));  // POLLIN only reports the end
    default: return 0;
  }
}

Clock::time_point Outgoing::next_deadline() const noexcept {
  switch (state_) {
    case State::silent: return first_try_ == Clock::time_point{} ? Clock::time_point::max() : try_again_;
    case State::connecting:
    case State::handshake: return give_up_;
    default: return Clock::time_point::max();
  }
}

void Outgoing::enqueue(WireHead const& head, std::string words) {
  if (state_ != State::over) {
    queued_.push({head, std::move(words)});
  }
}

void Outgoing::advance(Clock::time_point now, std::function<std::optional<Piece>()> const& next) {
  if (state_ == State::silent && now >= try_again_) {
    dial(now);
  }
  if (state_ == State::connecting && await_socket(socket_, POLLOUT, {})) {
    if (int const error = connect_error(socket_); error != 0) {
      retry(now, error_text(error));
    } else {
      send_handshake();
    }
  }
  if (state_ == State::handshake) {
    read_answer(now);
  }
  if ((state_ == State::connecting || state_ == State::handshake) && now >= give_up_) {
    retry(now, state_ == State::handshake ? "it accepted the connection and sent nothing" : error_text(ETIMEDOUT));
  }
  if (state_ == State::open) {
    look_for_end();
  }
  if (state_ == State::open) {
    send(next);
  }
}

// ---- connecting -----------------------------------------------------------------------------------------------------

void Outgoing::dial(Clock::time_point now) {
  first_try_ = first_try_ == Clock::time_point{} ? now : first_try_;
  auto attempt = begin_to_connect(at_.host, at_.port);
  if (!attempt.socket) {
    return retry(now, attempt.problem);
  }
  socket_ = std::move(attempt.socket);
  state_ = State::connecting;
  give_up_ = now + patience_per_try;
}

void Outgoing::retry(Clock::time_point now, std::string const& why) {
  state_ = State::silent;
  handshake_connection_.reset();
  socket_ = {};
  try_again_ = now + between_tries;
  if (!has_warned_ && now - first_try_ >= silence_before_log) {
    has_warned_ = true;
    logger().warn("{}rank {} cannot be reached at {} yet: {}", rank_prefix(), handshake_.to, where(), why);
  }
}

void Outgoing::send_handshake() {
  endure(socket_, silence_);
  handshake_connection_.emplace(std::move(socket_), most_handshake_bytes);
  handshake_connection_->send(Kind::hello, 0, encode(handshake_));
  state_ = State::handshake;
}

void Outgoing::read_answer(Clock::time_point now) {
  handshake_connection_->flush();
  bool const open = handshake_connection_->receive();
  try {
    auto const frame = handshake_connection_->next();
    if (!frame) {
      return open ? void() : retry(now, "it accepted the connection and closed it");
    }
    BodyReader body{frame->body};
    if (frame->kind == Kind::refusal) {
      return end("it refused this process: " + body.text(most_handshake_bytes), false);
    }
    if (frame->kind != Kind::welcome || body.text(most_token_bytes) != handshake_.token) {
      throw BadFrame{"something other than this job's welcome"};
    }
    socket_ = std::move(*handshake_connection_).release();
    handshake_connection_.reset();
    state_ = State::open;
  } catch (BadFrame const& bad) {
    end(fmt::format("the peer is not a rank of this job: it sent {}", bad.what()), false);
  }
}

// ---- sending --------------------------------------------------------------------------------------------------------

void Outgoing::look_for_end() {
  char byte = 0;
  auto const bytes = ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
  if (bytes == 0) {
    end("it closed the connection", true);
  } else if (bytes > 0) {
    end("it sent data on a connection that only this rank sends on", false);
  } else if (errno != EAGAIN && errno != EINTR) {
    end(error_text(errno), true);
  }
}

void Outgoing::send(std::function<std::optional<Piece>()> const& next) {
  constexpr std::size_t most_at_once = 1 << 20;  // then other connections get a turn
  stuck_ = false;
  for (std::size_t sent = 0; sent < most_at_once;) {
    if (!sending_ && !take(next)) {
      return;
    }
    std::size_t const before = sent_;
    bool const more = send_some();
    sent += sent_ - before;
    if (!more) {
      stuck_ = true;
      return;
    }
    if (sent_ == wire_head_bytes + bytes_) {
      sending_ = false;
      if (after_.done != nullptr) {
        after_.give();
      }
    }
  }
  stuck_ = true;  // poll() reports at once if the system can take more
}

bool Outgoing::take(std::function<std::optional<Piece>()> const& next) {
  WireHead head;
  after_ = {};
  if (!queued_.empty()) {
    head = queued_.front().head;
    text_ = std::move(queued_.front().text);
    head.bytes = static_cast<std::uint32_t>(text_.size());
    data_ = reinterpret_cast<std::byte const*>(text_.data());
    queued_.pop();
  } else if (auto const piece = next()) {
    head = piece->head;
    data_ = piece->data;
    after_ = piece->after;
  } else {
    return false;
  }
  head_ = encode(head);
  bytes_ = head.bytes;
  sent_ = 0;
  sending_ = true;
  return true;
}

/// Returns false if the system accepts no more for now, or never will.
bool Outgoing::send_some() {
  std::size_t const head_sent = std::min(sent_, head_.size());
  std::size_t const data_sent = sent_ - head_sent;
  std::array<iovec, 2> parts{iovec{head_.data() + head_sent, head_.size() - head_sent},
                             iovec{const_cast<std::byte*>(data_) + data_sent, bytes_ - data_sent}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = bytes_ == data_sent ? 1 : 2;
  auto const bytes = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (bytes < 0 && errno != EAGAIN && errno != EINTR) {
    end(error_text(errno), true);
    return false;
  }
  sent_ += static_cast<std::size_t>(std::max<ssize_t>(bytes, 0));
  return bytes > 0 || errno == EINTR;
}

void Outgoing::end(std::string const& why, bool cut) {
  close();
  problem_ = why;
  was_cut_ = cut;
}

void Outgoing::close() noexcept {
  state_ = State::over;
  handshake_connection_.reset();
  socket_ = {};
  queued_.clear();
  sending_ = stuck_ = false;
  after_ = {};
}

}  // namespace zeroth::comm
