// SPDX-License-Identifier: Apache-2.0
#include "comm/store/store_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "comm/describe.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds patience_for_handshake{5};
constexpr int most_refusals_logged = 20;
/// Output that may be queued for a rank that does not read.
constexpr std::size_t most_waiting_bytes = std::size_t{256} << 20;

/// The silence after which a rank certainly belongs to the fault, once the first rank has timed out. One fault silences
/// its ranks within one heartbeat of each other, and healthy ranks were heard in the last two.
milliseconds sure_silence(milliseconds heartbeat_timeout) { return 3 * beat_interval(heartbeat_timeout); }

Contacts contacts_of(std::string_view letters, int world) {
  Contacts contacts(static_cast<std::size_t>(world));
  if (letters.size() != contacts.size() || letters.find_first_not_of("-hls") != std::string_view::npos) {
    throw BadFrame{"a report that is not about the ranks of the job"};
  }
  std::transform(letters.begin(), letters.end(), contacts.begin(), [](char each) { return Contact{each}; });
  return contacts;
}

StoreTable::Wait wait_of(std::uint64_t wait_ms, Clock::time_point now) {
  return {now, now + milliseconds{static_cast<std::int64_t>(wait_ms)}};
}

}  // namespace

StoreServer::StoreServer(Descriptor listener, Options options)
    : listener_{std::move(listener)},
      options_{std::move(options)},
      roster_(static_cast<std::size_t>(options_.world), RankState::absent),
      table_{roster_},
      members_(static_cast<std::size_t>(options_.world)),
      hosts_(static_cast<std::size_t>(options_.world)) {}

void StoreServer::adopt(Descriptor socket, std::string const& host) {
  auto& peer = *peers_.emplace_back(std::make_unique<Peer>(std::move(socket), "rank 0 itself", Clock::now()));
  peer.rank = 0;
  peer.connection.set_most_body_bytes(most_call_bytes(options_.world));
  roster_[0] = RankState::joined;
  members_[0] = &peer;
  hosts_[0] = host;
}

// ---- between polls --------------------------------------------------------------------------------------------------

void StoreServer::watch(std::vector<pollfd>& entries) const {
  bool const accepts = Clock::now() >= accept_again_;
  entries.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
  for (auto const& peer : peers_) {
    entries.push_back({peer->connection.socket().get(), peer->connection.events(), 0});
  }
}

void StoreServer::serve(std::span<pollfd const> entries, Clock::time_point now) {
  for (std::size_t i = 1; i < entries.size(); ++i) {
    auto& peer = *peers_[i - 1];
    if ((entries[i].revents & POLLOUT) != 0) {
      peer.connection.flush();
    }
    if ((entries[i].revents & ~POLLOUT) != 0) {
      read(peer, now);
    }
  }
  if (entries[0].revents != 0) {
    accept_all(now);
  }
  look_at_the_clock(now);
  send_replies();
  std::erase_if(peers_, [](auto const& peer) { return peer->ended; });
}

Clock::time_point StoreServer::next_deadline() const noexcept {
  auto next =
      std::min(table_.next_deadline(), accept_again_ > Clock::time_point{} ? accept_again_ : Clock::time_point::max());
  for (auto const& peer : peers_) {
    if (peer->rank < 0) {
      next = std::min(next, peer->since + patience_for_handshake);
    } else if (peer->rank > 0 && !failure_) {
      next = std::min(next, peer->heard + options_.heartbeat_timeout);
    }
  }
  next = std::min(next, warns_at_.value_or(next));
  return timeout_reports_ && !failure_ ? std::min(next, timeout_reports_->deadline()) : next;
}

void StoreServer::look_at_the_clock(Clock::time_point now) {
  if (now >= accept_again_) {
    accept_again_ = {};
  }
  for (auto& peer : peers_) {
    if (peer->ended) {
      continue;
    }
    if (peer->rank < 0 && now - peer->since >= patience_for_handshake) {
      if (peer->connection.has_received() && !peer->refused) {
        log_refusal(*peer, "it did not finish its handshake");
      }
      peer->ended = true;
    } else if (peer->connection.waiting_bytes() > most_waiting_bytes) {
      end(*peer, "does not read what it asked for");
    }
  }
  warn_of_absent(now);
  look_for_silence(now);
  conclude_timeout_query(now);
  if (now >= table_.next_deadline()) {
    table_.expire(now);
  }
}

/// Warns once if ranks take long to arrive, for a person who waits for them.
void StoreServer::warn_of_absent(Clock::time_point now) {
  if (!warns_at_ || now < *warns_at_) {
    return;
  }
  warns_at_.reset();
  std::vector<int> absent;
  for (std::size_t rank = 0; rank < roster_.size(); ++rank) {
    if (roster_[rank] == RankState::absent) {
      absent.push_back(static_cast<int>(rank));
    }
  }
  if (!absent.empty() && !failure_) {
    logger().warn("{}rank 0 still waits for {}", rank_prefix(), describe_ranks(absent, roster_));
  }
}

// ---- silence --------------------------------------------------------------------------------------------------------

void StoreServer::look_for_silence(Clock::time_point now) {
  auto const is_missed = [&](auto const& peer) {
    return peer->rank > 0 && (peer->deaf || (!peer->ended && now - peer->heard >= options_.heartbeat_timeout));
  };
  auto const any_is_missed = [&] { return !failure_ && std::any_of(peers_.begin(), peers_.end(), is_missed); };
  if (any_is_missed()) {
    read_what_came(now);
  }
  if (any_is_missed()) {
    fail_for_silence(now);
  }
}

/// This process may have been frozen since poll() ended. Messages of that time must count before a rank is named.
void StoreServer::read_what_came(Clock::time_point now) {
  for (auto& peer : peers_) {
    if (peer->rank > 0 && !peer->ended) {
      read(*peer, now);
    }
  }
}

/// Names all missing ranks together: the cause follows from the list, or cannot be known here.
void StoreServer::fail_for_silence(Clock::time_point now) {
  auto const limit = sure_silence(options_.heartbeat_timeout);
  std::vector<int> silent;
  std::vector<int> deaf;
  Clock::duration longest_silence{};
  Clock::duration longest_deafness{};
  for (auto const& peer : peers_) {
    if (peer->rank <= 0 || (peer->ended && !peer->deaf)) {
      continue;
    }
    if (now - peer->heard >= limit) {
      silent.push_back(peer->rank);
      longest_silence = std::max(longest_silence, now - peer->heard);
    } else if (peer->deaf || now - peer->heard_us >= limit) {
      deaf.push_back(peer->rank);
      longest_deafness = std::max(longest_deafness, now - peer->heard_us);
    }
  }
  std::sort(deaf.begin(), deaf.end());
  if (silent.empty()) {
    fail(0, fmt::format("{}: no message for {}", describe_unheard(deaf, {0}, hosts_), describe(longest_deafness)));
    return;
  }
  bool const one = silent.size() == 1;
  std::sort(silent.begin(), silent.end());
  fail(silent.front(), fmt::format("{}{} sent nothing for {}: {} frozen, or {} messages are lost",
                                   name_ranks(silent, hosts_), one ? groups_of(silent.front()) + " has" : " have",
                                   describe(longest_silence), one ? "it is" : "they are", one ? "its" : "their"));
}

// ---- timeouts of ranks ----------------------------------------------------------------------------------------------

void StoreServer::begin_timeout_query(int first, Clock::time_point now) {
  if (timeout_reports_ || failure_) {
    return;
  }
  timeout_reports_.emplace(options_.world, first, now + patience_for_timeout_reports);
  for (auto* const member : members_) {
    if (member != nullptr) {
      member->connection.send(Kind::timeout_query, 0, std::string{});
    }
  }
}

void StoreServer::conclude_timeout_query(Clock::time_point now) {
  auto const has_spoken = [this](Peer const* member) {
    return member == nullptr || timeout_reports_->has(member->rank);
  };
  if (timeout_reports_ && !failure_ && !timeout_reports_->is_empty() &&
      (now >= timeout_reports_->deadline() || std::all_of(members_.begin(), members_.end(), has_spoken))) {
    auto const found = timeout_reports_->find(hosts_);
    fail(found.origin, found.reason);
  }
}

void StoreServer::send_replies() {
  for (auto const& reply : table_.replies) {
    if (auto* const peer = members_[static_cast<std::size_t>(reply.rank)]) {
      peer->connection.send(reply.kind, reply.tag, reply.body);
    }
  }
  table_.replies.clear();
}

void StoreServer::forgive_silence(Clock::time_point now) noexcept {
  for (auto& peer : peers_) {
    peer->heard = now;
    peer->heard_us = now;
  }
}

// ---- connections without a rank -------------------------------------------------------------------------------------

void StoreServer::accept_all(Clock::time_point now) {
  int error = 0;
  while (auto arrival = accept_from(listener_, error)) {
    peers_.push_back(std::make_unique<Peer>(std::move(arrival->socket), std::move(arrival->address), now));
  }
  if (error != 0) {
    logger().warn("{}the store cannot take a connection now: {}", rank_prefix(), error_text(error));
    accept_again_ = now + rest_after_refused_accept;
  }
  auto const is_pending = [](auto const& peer) { return peer->rank < 0 && !peer->ended; };
  auto pending = static_cast<std::size_t>(std::count_if(peers_.begin(), peers_.end(), is_pending));
  for (auto& peer : peers_) {  // the oldest first
    if (pending <= most_pending_connections + roster_.size()) {
      break;
    }
    if (is_pending(peer)) {
      read(*peer, now);  // it may be a rank that has introduced itself since
      peer->ended = peer->ended || peer->rank < 0;
      --pending;
    }
  }
}

void StoreServer::admit(Peer& peer, Hello const& hello) {
  auto const mine = roster_.size();
  if (hello.version != protocol_version) {
    refuse(peer, Refusal::config,
           fmt::format("it speaks version {} of the store's protocol, this program version {}: all ranks must run the "
                       "same build",
                       protocol_version, hello.version),
           fmt::format("it speaks version {} of the protocol, this is version {}", hello.version, protocol_version));
  } else if (hello.token != options_.token) {
    refuse(peer, Refusal::job,
           "this process's job token differs from that job's: another job uses that address; ranks that are started by "
           "hand with different arguments need the same ZEROTH_JOB_TOKEN",
           "its job token is not this job's");
  } else if (hello.world != options_.world || hello.rank >= hello.world) {
    refuse(peer, Refusal::config,
           fmt::format("its job has {} ranks, and this process is rank {} of {}: give all ranks the same world", mine,
                       hello.rank, hello.world),
           fmt::format("it is rank {} of {}, and this job has {} ranks", hello.rank, hello.world, mine));
  } else if (failure_) {
    refuse(peer, Refusal::peer, "that job has failed already: " + failure_->reason,
           fmt::format("rank {} came after the job had failed", hello.rank));
  } else if (state_of(hello.rank) != RankState::absent) {
    auto const how = state_of(hello.rank) == RankState::left ? "joined and left" : "joined";
    refuse(peer, Refusal::config,
           fmt::format("{} has {} already: two processes were given the same rank, or this one is left over from "
                       "before",
                       name_of(hello.rank), how),
           fmt::format("it claims to be {}, which has {} already", name_of(hello.rank), how));
  } else {
    auto const rank = static_cast<std::size_t>(hello.rank);
    peer.rank = hello.rank;
    endure(peer.connection.socket(), options_.heartbeat_timeout);
    peer.connection.set_most_body_bytes(most_call_bytes(options_.world));
    roster_[rank] = RankState::joined;
    members_[rank] = &peer;
    hosts_[rank] = hello.host;
    peer.connection.send(Kind::welcome, 0,
                         Body{}.number(static_cast<std::uint64_t>(options_.heartbeat_timeout.count())).take());
  }
}

void StoreServer::refuse(Peer& peer, Refusal refusal, std::string const& to_him, std::string const& to_us) {
  log_refusal(peer, to_us);
  peer.connection.send(
      Kind::refusal, 0,
      Body{}.number(static_cast<std::uint64_t>(refusal)).text(to_him.substr(0, most_value_bytes)).take());
  peer.refused = true;  // the peer closes, or times out
}

void StoreServer::log_refusal(Peer const& peer, std::string const& what) {
  if (refusals_logged_ < most_refusals_logged) {
    logger().warn("{}the store refuses {}: {}", rank_prefix(), peer.address, what);
  }
  if (++refusals_logged_ == most_refusals_logged) {
    logger().warn("{}further refused connections are not logged", rank_prefix());
  }
}

// ---- ranks ----------------------------------------------------------------------------------------------------------

void StoreServer::read(Peer& peer, Clock::time_point now) {
  bool const open = peer.connection.receive();
  try {
    while (!peer.ended) {
      auto const frame = peer.connection.next();
      if (!frame) {
        break;
      }
      peer.heard = now;
      take(peer, *frame, now);
    }
  } catch (BadFrame const& bad) {
    end(peer, fmt::format("sent {}", bad.what()));
    return;
  }
  if (!open && !peer.ended) {
    end(peer, "ended without leaving the job: its process exited, was killed or crashed, or the connection broke");
  }
}

void StoreServer::take(Peer& peer, Frame const& frame, Clock::time_point now) {
  BodyReader body{frame.body};
  if (peer.rank < 0) {
    if (frame.kind != Kind::hello) {
      throw BadFrame{"something before its handshake"};
    }
    if (!peer.refused) {
      admit(peer, decode_hello(frame.body));
    }
    return;
  }
  StoreTable::Call const call{peer.rank, frame.tag};
  switch (frame.kind) {
    case Kind::set: {
      auto const key = body.text(most_name_bytes);
      auto value = body.text(most_value_bytes);
      table_.set(call, key, std::move(value), body.number());
      break;
    }
    case Kind::get: {
      auto const key = body.text(most_name_bytes);
      table_.get(call, key, wait_of(body.number(0, longest_wait_ms), now));
      break;
    }
    case Kind::gather: {
      auto const name = body.text(most_name_bytes);
      auto value = body.text(most_value_bytes);
      table_.gather(call, name, std::move(value), wait_of(body.number(0, longest_wait_ms), now));
      break;
    }
    case Kind::key_value: table_.key_value(call, body.text(most_key_value_call_bytes), now); break;
    case Kind::beat:
      peer.heard_us = now - milliseconds{static_cast<std::int64_t>(body.number(0, longest_wait_ms))};
      peer.connection.send(Kind::beat, 0, std::string{});
      break;
    case Kind::unheard:
      body.text(most_value_bytes);  // the same text that it gives its own program
      peer.deaf = true;
      leave(peer);
      break;
    case Kind::timeout_query: begin_timeout_query(peer.rank, now); break;
    case Kind::timeout_report: {
      auto words = body.text(most_value_bytes);
      auto contacts = contacts_of(body.text(static_cast<std::size_t>(options_.world)), options_.world);
      begin_timeout_query(peer.rank, now);
      if (timeout_reports_) {
        timeout_reports_->add(peer.rank, {std::move(words), std::move(contacts)});
      }
      break;
    }
    case Kind::abort: fail(peer.rank, body.text(most_value_bytes)); break;
    case Kind::leave: leave(peer); break;
    default: throw BadFrame{"a message that only rank 0's store sends"};
  }
  body.end();
}

void StoreServer::end(Peer& peer, std::string const& how) {
  peer.ended = true;
  if (peer.rank < 0) {
    if (peer.connection.has_received() && !peer.refused) {
      log_refusal(peer, "it " + how);
    }
    return;
  }
  members_[static_cast<std::size_t>(peer.rank)] = nullptr;
  fail(peer.rank, fmt::format("{}{} {}", name_of(peer.rank), groups_of(peer.rank), how));
}

void StoreServer::leave(Peer& peer) {
  peer.ended = true;
  members_[static_cast<std::size_t>(peer.rank)] = nullptr;
  state_of(peer.rank) = RankState::left;
  table_.leave(peer.rank);
}

void StoreServer::fail(int origin, std::string const& reason) {
  if (failure_) {
    return;  // only the first reason counts
  }
  failure_ = JobFailure{origin, reason, members_[static_cast<std::size_t>(origin)] == nullptr};
  auto const body = std::make_shared<std::string const>(Body{}
                                                            .number(static_cast<std::uint64_t>(origin))
                                                            .number(failure_->is_over ? 1 : 0)
                                                            .text(reason.substr(0, most_value_bytes))
                                                            .take());
  auto const tell = [&body](Peer* peer) {
    if (peer != nullptr) {
      peer->connection.send(Kind::aborted, 0, body);
    }
  };
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (static_cast<int>(rank) != origin) {
      tell(members_[rank]);
    }
  }
  tell(members_[static_cast<std::size_t>(origin)]);  // last: once it knows, all others have been told
}

// ---- the end --------------------------------------------------------------------------------------------------------

bool StoreServer::is_deserted() const noexcept {
  return failure_ ||
         std::none_of(members_.begin() + 1, members_.end(), [](Peer const* peer) { return peer != nullptr; });
}

void StoreServer::close() {
  listener_ = {};
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    if (members_[rank] != nullptr && !failure_) {
      members_[rank]->connection.send(Kind::closing, 0, std::string{});
    }
  }
}

bool StoreServer::has_sent_all() const noexcept {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](auto const& peer) { return peer->rank < 0 || peer->connection.has_sent_all(); });
}

std::string StoreServer::groups_of(int rank) const {
  return options_.groups_of ? options_.groups_of(rank) : std::string{};
}

std::string StoreServer::name_of(int rank) const {
  auto const& host = hosts_[static_cast<std::size_t>(rank)];
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host);
}

}  // namespace zeroth::comm
