// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/door.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "comm/rank_error.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr int most_logged = 20;

}  // namespace

void Door::watch(std::vector<pollfd>& entries) const {
  entries.push_back({Clock::now() >= accept_again_ ? options_.listener.get() : -1, POLLIN, 0});
  for (auto const& each : strangers_) {
    entries.push_back({each.connection.socket().get(), each.connection.events(), 0});
  }
}

std::vector<Door::Guest> Door::serve(std::span<pollfd const> entries, Clock::time_point now) {
  std::vector<Guest> guests;
  auto entry = entries.begin() + 1;
  for (auto& stranger : strangers_) {
    if ((entry++)->revents != 0) {
      hear(stranger, guests);
    }
    if (!stranger.ended && now - stranger.since >= options_.patience) {
      if (stranger.connection.has_received()) {
        turn_away(stranger, "it did not finish its greeting");
      }
      stranger.ended = true;
    }
  }
  strangers_.remove_if([](Stranger const& each) { return each.ended; });
  if (entries.front().revents != 0) {
    accept_all(now, guests);
  }
  return guests;
}

Clock::time_point Door::next_deadline() const noexcept {
  auto const accept = accept_again_ > Clock::now() ? accept_again_ : Clock::time_point::max();
  return strangers_.empty() ? accept : std::min(accept, strangers_.front().since + options_.patience);
}

void Door::accept_all(Clock::time_point now, std::vector<Guest>& guests) {
  int error = 0;
  while (auto arrival = accept_from(options_.listener, error)) {
    strangers_.push_back({Connection{std::move(arrival->socket), most_greeting_bytes}, arrival->address, now});
    if (strangers_.size() > most_idle_strangers + static_cast<std::size_t>(options_.world)) {
      hear(strangers_.front(), guests);  // it may be a rank that has introduced itself since
      strangers_.pop_front();
    }
  }
  if (error != 0) {  // no more files, say: connections wait in the system's queue
    accept_again_ = now + rest_after_refused_accept;
  }
}

void Door::hear(Stranger& stranger, std::vector<Guest>& guests) {
  if (int const rank = listen_to(stranger); rank >= 0) {
    guests.push_back({rank, std::move(stranger.connection).release()});
    stranger.ended = true;
  }
}

int Door::listen_to(Stranger& stranger) {
  stranger.connection.flush();
  bool const open = stranger.connection.receive();
  try {
    if (auto const frame = stranger.connection.next()) {
      if (frame->kind != Kind::hello) {
        throw BadFrame{"something before its greeting"};
      }
      auto const greeting = decode_greeting(frame->body);
      if (auto const objection = objection_to(greeting); !objection.empty()) {
        stranger.connection.send(Kind::refusal, 0, Body{}.text(objection).take());
        turn_away(stranger, objection);
        return -1;
      }
      stranger.connection.send(Kind::welcome, 0, Body{}.text(options_.token).take());
      return greeting.from;
    }
    if (!open) {
      if (stranger.connection.has_received()) {
        turn_away(stranger, "it ended in the middle of its greeting");
      }
      stranger.ended = true;
    }
  } catch (BadFrame const& bad) {
    turn_away(stranger, fmt::format("it sent {}", bad.what()));
  }
  return -1;
}

std::string Door::objection_to(Greeting const& greeting) const {
  if (greeting.version != tcp_version) {
    return fmt::format("it speaks version {} of the transport's protocol, this program version {}", greeting.version,
                       tcp_version);
  }
  if (greeting.token != options_.token) {
    return "its job token is not this job's";
  }
  if (greeting.world != options_.world || greeting.from >= greeting.world || greeting.to != options_.rank) {
    return fmt::format("it is rank {} of {} and looks for rank {}; this is rank {} of {}", greeting.from,
                       greeting.world, greeting.to, options_.rank, options_.world);
  }
  return {};
}

void Door::turn_away(Stranger& stranger, std::string const& why) {
  stranger.ended = true;
  if (logged_ < most_logged) {
    logger().warn("{}refused {}: {}", rank_prefix(), stranger.address, why);
  }
  if (++logged_ == most_logged) {
    logger().warn("{}of further strangers nothing is said", rank_prefix());
  }
}

}  // namespace zeroth::comm
