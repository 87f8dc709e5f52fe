// SPDX-License-Identifier: Apache-2.0
#include "comm/store/connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace zeroth::comm {
namespace {

/// Per connection and call, so that a busy one does not delay the others.
constexpr std::size_t most_bytes_at_once = 1 << 16;

}  // namespace

short Connection::events() const noexcept { return static_cast<short>(POLLIN | (output_.empty() ? 0 : POLLOUT)); }

bool Connection::receive() {
  input_.erase(0, consumed_);
  consumed_ = 0;
  std::size_t const before = input_.size();
  input_.resize(before + most_bytes_at_once);
  ssize_t bytes = -1;
  do {
    bytes = ::recv(socket_.get(), input_.data() + before, most_bytes_at_once, 0);
  } while (bytes < 0 && errno == EINTR);
  int const error = bytes < 0 ? errno : 0;
  input_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  received_any_ = received_any_ || bytes > 0;
  return bytes > 0 || error == EAGAIN;
}

std::optional<Frame> Connection::next() {
  auto const rest = std::string_view{input_}.substr(consumed_);
  if (rest.size() < head_bytes) {
    return std::nullopt;
  }
  auto const head = decode_head(rest);
  if (head.kind < static_cast<std::uint8_t>(Kind::hello) || head.kind > static_cast<std::uint8_t>(last_kind)) {
    throw BadFrame{fmt::format("a message of unknown kind {}", head.kind)};
  }
  if (head.body_bytes > most_body_bytes_) {
    throw BadFrame{
        fmt::format("a message that announces {} bytes, where {} are allowed", head.body_bytes, most_body_bytes_)};
  }
  if (rest.size() < head_bytes + head.body_bytes) {
    return std::nullopt;
  }
  consumed_ += head_bytes + head.body_bytes;
  return Frame{static_cast<Kind>(head.kind), head.tag, std::string{rest.substr(head_bytes, head.body_bytes)}};
}

void Connection::send(Kind kind, std::uint64_t tag, std::string body) {
  send(kind, tag, std::make_shared<std::string const>(std::move(body)));
}

void Connection::send(Kind kind, std::uint64_t tag, std::shared_ptr<std::string const> body) {
  Head const head{static_cast<std::uint32_t>(body->size()), static_cast<std::uint8_t>(kind), tag};
  output_.push_back({encode(head), std::move(body)});
  waiting_bytes_ += output_.back().bytes();
  flush();
}

void Connection::flush() {
  while (!output_.empty()) {
    auto const& first = output_.front();
    std::array<iovec, 2> parts{};
    std::size_t const head_left = first.head.size() - std::min(sent_, first.head.size());
    std::size_t const body_sent = sent_ - std::min(sent_, first.head.size());
    parts[0] = {const_cast<char*>(first.head.data()) + (first.head.size() - head_left), head_left};
    parts[1] = {const_cast<char*>(first.body->data()) + body_sent, first.body->size() - body_sent};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    ssize_t const bytes = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes < 0 && errno == EAGAIN) {
      return;
    }
    if (bytes < 0) {
      give_up_output();  // receive() will report that the connection is broken
      return;
    }
    sent_ += static_cast<std::size_t>(bytes);
    waiting_bytes_ -= static_cast<std::size_t>(bytes);
    if (sent_ == first.bytes()) {
      output_.pop_front();
      sent_ = 0;
    }
  }
}

void Connection::give_up_output() noexcept {
  output_.clear();
  sent_ = 0;
  waiting_bytes_ = 0;
}

}  // namespace zeroth::comm
