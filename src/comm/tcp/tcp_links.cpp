// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/tcp_links.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <utility>

#include "core/start_thread.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// When a rank ends, its connections end first. The store then reports the reason in better words.
constexpr std::chrono::seconds grace_for_store{3};
constexpr std::chrono::seconds longest_sleep{1};

}  // namespace

TcpLinks::TcpLinks(Acceptor::Options acceptor, std::vector<Endpoint> const& ranks, std::chrono::milliseconds silence,
                   Handlers handlers)
    : handlers_{std::move(handlers)}, wake_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)}, acceptor_{std::move(acceptor)} {
  if (!wake_) {
    throw SystemError{"eventfd failed: " + error_text(errno)};
  }
  auto const& job = acceptor_.options();
  Handshake handshake{.token = job.token, .from = job.rank, .to = 0, .world = job.world};
  for (auto const& each : ranks) {
    peers_.push_back(std::make_unique<Peer>(each, handshake, silence));
    ++handshake.to;
  }
  thread_ = start_thread("tcp", [this, speaker = RankContext{handshake.from, handshake.world, {}}] {
    ::pthread_setname_np(::pthread_self(), "tcp");
    this_rank() = speaker;
    loop();
  });
}

TcpLinks::~TcpLinks() {
  {
    std::scoped_lock const lock{mutex_};
    ending_ = true;
  }
  wake();
  thread_.join();
}

// ---- calls from other threads ---------------------------------------------------------------------------------------

void TcpLinks::show(int to, Channel const& channel, void const* data, std::int64_t bytes, std::uint32_t outline,
                    Notice const& notice) {
  std::scoped_lock const lock{mutex_};
  if (halted_) {
    return;
  }
  auto& queue = peer(to).queues[channel];
  queue.shown.push({static_cast<std::byte const*>(data), bytes, outline, notice});
  serve(peer(to), channel, queue);
}

void TcpLinks::want(int from, Channel const& channel, std::int64_t offset, std::int64_t bytes, void* to, bool last,
                    std::uint32_t outline, Notice const& notice) {
  std::scoped_lock const lock{mutex_};
  if (halted_) {
    return;
  }
  peer(from).queues[channel].awaited.push({static_cast<std::byte*>(to), bytes, notice});
  peer(from).out.enqueue({.kind = WireKind::want,
                          .tag = channel.tag,
                          .last = last,
                          .outline = outline,
                          .communicator = channel.communicator,
                          .offset = static_cast<std::uint64_t>(offset),
                          .length = static_cast<std::uint64_t>(bytes)});
  advance_out(peer(from));
}

void TcpLinks::send(int to, WireHead const& head, std::string words) {
  std::scoped_lock const lock{mutex_};
  if (!halted_) {
    peer(to).out.enqueue(head, std::move(words));
    advance_out(peer(to));
  }
}

void TcpLinks::forget(std::uint64_t communicator) {
  std::scoped_lock const lock{mutex_};
  for (auto& each : peers_) {
    std::erase_if(each->queues, [&](auto const& entry) { return entry.first.communicator == communicator; });
  }
}

void TcpLinks::expect_end(bool expected) {
  std::scoped_lock const lock{mutex_};
  end_expected_ = expected;
}

void TcpLinks::halt() noexcept {
  std::scoped_lock const lock{mutex_};
  halted_ = true;
  for (auto& each : peers_) {
    each->out.close();
    each->in.close();
    each->queues.clear();
    each->turns.clear();
  }
  wake();
}

void TcpLinks::wake() const noexcept {
  std::uint64_t const one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

// ---- sending, under the lock ----------------------------------------------------------------------------------------

/// Queues the channel for its turn if it has something to send.
void TcpLinks::serve(Peer& peer, Channel const& channel, Queue& queue) {
  if (!queue.in_turn && !queue.shown.empty() && !queue.wants.empty()) {
    queue.in_turn = true;
    peer.turns.push(channel);
    advance_out(peer);
  }
}

std::optional<Piece> TcpLinks::next_piece(Peer& peer) {
  if (peer.turns.empty()) {
    return std::nullopt;
  }
  auto const channel = peer.turns.front();
  peer.turns.pop();
  auto& queue = peer.queues[channel];
  if (queue.shown.empty() || queue.wants.empty()) {
    return std::nullopt;
  }
  auto& shown = queue.shown.front();
  auto& want = queue.wants.front();
  if (auto const end = want.offset + want.left; end > shown.bytes || (want.last && end != shown.bytes)) {
    break_off(peer,
              fmt::format("it expects {} bytes where this rank sends {}: check that all ranks run the same program "
                          "with the same counts",
                          end, shown.bytes),
              true);
    return std::nullopt;
  }
  if (want.outline != shown.outline) {
    break_off(peer, fmt::format("it {}", in_another_collective), true);
    return std::nullopt;
  }
  auto const bytes = std::min(want.left, std::int64_t{most_piece_bytes});
  Piece piece{.head = {.kind = WireKind::data,
                       .tag = channel.tag,
                       .bytes = static_cast<std::uint32_t>(bytes),
                       .communicator = channel.communicator},
              .data = shown.data + want.offset};
  want.offset += bytes;
  want.left -= bytes;
  if (want.left == 0) {
    if (want.last) {
      piece.after = shown.notice;
      queue.shown.pop();
    }
    queue.wants.pop();
  }
  queue.in_turn = !queue.shown.empty() && !queue.wants.empty();
  if (queue.in_turn) {
    peer.turns.push(channel);
  }
  return piece;
}

void TcpLinks::advance_out(Peer& peer) {
  auto const next = [&] { return next_piece(peer); };
  short const before = peer.out.events();
  int const socket_before = peer.out.socket();
  peer.out.advance(Clock::now(), std::ref(next));
  if (auto const& problem = peer.out.problem(); !problem.empty()) {
    break_off(peer, problem, !peer.out.was_cut());
  }
  if ((peer.out.events() != before || peer.out.socket() != socket_before) &&
      std::this_thread::get_id() != thread_.get_id()) {
    wake();  // it must poll other events now
  }
}

void TcpLinks::advance_in(int rank) {
  auto& from = peer(rank);
  auto const place = [&](WireHead const& head) {
    auto const queue = from.queues.find({head.communicator, head.tag});
    if (queue == from.queues.end() || queue->second.awaited.empty() ||
        static_cast<std::int64_t>(head.bytes) > queue->second.awaited.front().left) {
      throw BadFrame{fmt::format("{} bytes that were not asked for", head.bytes)};
    }
    return queue->second.awaited.front().to;
  };
  auto const whole = [&](WireHead const& head, std::string const& words) {
    Channel const channel{head.communicator, head.tag};
    if (head.kind == WireKind::want) {
      auto& queue = from.queues[channel];
      queue.wants.push(
          {static_cast<std::int64_t>(head.offset), static_cast<std::int64_t>(head.length), head.last, head.outline});
      serve(from, channel, queue);
    } else if (head.kind == WireKind::data) {
      auto& queue = from.queues.at(channel);
      auto& awaited = queue.awaited.front();
      awaited.to += head.bytes;
      awaited.left -= static_cast<std::int64_t>(head.bytes);
      if (awaited.left == 0) {
        auto const notice = awaited.notice;
        queue.awaited.pop();
        notice.give();
      }
    } else {
      received_.push_back({rank, head, words});
    }
  };
  try {
    if (auto const problem = from.in.advance({std::ref(place), std::ref(whole)}); !problem.empty()) {
      from.in.close();
      break_off(from, problem, false);
    }
  } catch (BadFrame const& bad) {
    from.in.close();
    break_off(from, fmt::format("it sent {}", bad.what()), true);
  }
}

void TcpLinks::break_off(Peer& peer, std::string const& why, bool at_once) {
  if (peer.broken.empty()) {
    peer.broken = why;
    peer.broken_at = Clock::now() - (at_once ? grace_for_store : std::chrono::seconds{0});
  }
}

// ---- the thread -----------------------------------------------------------------------------------------------------

void TcpLinks::loop() noexcept {
  while (true) {
    try {
      wait_for_sockets();
      {
        std::scoped_lock const lock{mutex_};
        if (ending_) {
          return;
        }
        if (!halted_) {
          serve_sockets();
        }
      }
      tell();
    } catch (std::exception const& error) {  // out of memory
      handlers_.broken(this_rank().rank, error.what());
    }
  }
}

void TcpLinks::wait_for_sockets() {
  {
    std::scoped_lock const lock{mutex_};
    entries_.clear();
    entries_.push_back({wake_.get(), POLLIN, 0});
    deadline_ = Clock::now() + longest_sleep;
    if (!halted_) {
      for (auto const& each : peers_) {
        entries_.push_back({each->out.socket(), each->out.events(), 0});
        entries_.push_back({each->in.socket(), POLLIN, 0});
        deadline_ = std::min(deadline_, each->out.next_deadline());
      }
      acceptor_.watch(entries_);
      deadline_ = std::min(deadline_, acceptor_.next_deadline());
    }
  }
  if (::poll(entries_.data(), entries_.size(), poll_timeout(Clock::now(), deadline_)) < 0) {
    std::for_each(entries_.begin(), entries_.end(), [](pollfd& entry) { entry.revents = 0; });
    if (errno != EINTR) {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});  // the kernel is out of memory
    }
  }
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
}

void TcpLinks::serve_sockets() {
  auto const now = Clock::now();
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    auto& each = *peers_[rank];
    // A socket that another thread has opened since gets its turn in the next round.
    if (entries_[2 * rank + 1].revents != 0 || now >= each.out.next_deadline()) {
      advance_out(each);
    }
    if (entries_[2 * rank + 2].revents != 0 && each.in.socket() == entries_[2 * rank + 2].fd) {
      advance_in(static_cast<int>(rank));
    }
  }
  std::span<pollfd const> const all{entries_};
  for (auto& rank_socket : acceptor_.serve(all.subspan(1 + 2 * peers_.size()), now)) {
    peer(rank_socket.rank).in = Incoming{std::move(rank_socket.socket)};  // the last connection with the token wins
  }
}

void TcpLinks::tell() {
  std::vector<Received> received;
  std::vector<std::pair<int, std::string>> broken;
  {
    std::scoped_lock const lock{mutex_};
    received.swap(received_);
    for (std::size_t rank = 0; rank < peers_.size() && !halted_ && !end_expected_; ++rank) {
      auto& each = *peers_[rank];
      if (!each.broken.empty() && !each.is_told && Clock::now() - each.broken_at >= grace_for_store) {
        each.is_told = true;
        broken.emplace_back(static_cast<int>(rank), fmt::format("{} ({})", each.broken, each.out.where()));
      }
    }
  }
  for (auto const& each : received) {
    handlers_.receive(each.from, each.head, each.words);
  }
  for (auto const& [rank, why] : broken) {
    handlers_.broken(rank, why);
  }
}

}  // namespace zeroth::comm
