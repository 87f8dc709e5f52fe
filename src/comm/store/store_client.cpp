// SPDX-License-Identifier: Apache-2.0
#include "comm/store/store_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/describe.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr int beats_per_timeout = 5;
constexpr std::chrono::seconds patience_for_abort{2};

std::vector<std::string> decode_values(BodyReader& body, int world) {
  std::vector<std::string> values(body.number(0, static_cast<std::uint64_t>(world)));
  for (auto& value : values) {
    value = body.text(most_value_bytes);
  }
  return values;
}

StoreCall::Outcome outcome_of(Problem problem) noexcept {
  switch (problem) {
    case Problem::contract: return StoreCall::Outcome::contract_error;
    case Problem::peer: return StoreCall::Outcome::peer_error;
    case Problem::late: return StoreCall::Outcome::late_error;
  }
  return StoreCall::Outcome::peer_error;
}

}  // namespace

StoreClient::StoreClient(Connection connection, Options options)
    : connection_{std::move(connection)},
      options_{std::move(options)},
      heard_{Clock::now()},
      next_beat_{heard_ + options_.heartbeat_timeout / beats_per_timeout} {
  connection_.set_most_body_bytes(most_answer_bytes(options_.world));
}

void StoreClient::call(Kind kind, std::string body, std::shared_ptr<StoreCall> const& call) {
  if (state_ != State::joined) {
    end_call(*call, StoreCall::Outcome::peer_error, state_ == State::failed ? failure()->reason : alone_because_);
    return;
  }
  calls_.emplace(++last_tag_, call);
  connection_.send(kind, last_tag_, std::move(body));
}

void StoreClient::abort(std::string const& reason) {
  if (state_ == State::failed || asked_to_abort_) {
    return;
  }
  asked_to_abort_ = reason;
  if (state_ == State::joined) {
    connection_.send(Kind::abort, 0, Body{}.text(std::string_view{reason}.substr(0, most_value_bytes)).take());
    abort_deadline_ = Clock::now() + patience_for_abort;
  } else {
    abort_deadline_ = Clock::now();  // nobody is left to tell
  }
}

void StoreClient::leave() {
  if (state_ != State::joined) {
    return;
  }
  connection_.send(Kind::leave, 0, std::string{});
  state_ = State::alone;
  alone_because_ = "this rank has left the job";
  end_calls(alone_because_);
}

void StoreClient::watch(std::vector<pollfd>& entries) const {
  bool const is_connected = state_ == State::joined || !connection_.has_sent_all();
  entries.push_back({is_connected ? connection_.socket().get() : -1, connection_.events(), 0});
}

void StoreClient::serve(std::span<pollfd const> entries, Clock::time_point now) {
  if (entries[0].revents != 0) {
    connection_.flush();
  }
  if (state_ == State::joined && (entries[0].revents & ~POLLOUT) != 0) {
    bool const open = connection_.receive();
    try {
      for (auto frame = connection_.next(); frame && state_ == State::joined; frame = connection_.next()) {
        heard_ = now;
        take(*frame);
      }
      if (!open && state_ == State::joined) {
        fail({0, options_.rank0 + " ended without leaving the job: its process was killed or crashed, or the "
                                  "connection broke"});
      }
    } catch (BadFrame const& bad) {
      fail({0, fmt::format("{} sent {}", options_.rank0, bad.what())});
    }
  }
  if (now >= abort_deadline_) {
    abort_deadline_ = Clock::time_point::max();
    fail({options_.rank, *asked_to_abort_});
  }
  if (state_ != State::joined) {
    return;
  }
  if (options_.rank != 0 && now - heard_ >= options_.heartbeat_timeout) {
    fail({0, fmt::format("{} has not been heard of for {}: it is frozen, or its machine cannot be reached",
                         options_.rank0, describe(now - heard_))});
  } else if (now >= next_beat_) {
    next_beat_ = now + options_.heartbeat_timeout / beats_per_timeout;
    connection_.send(Kind::beat, 0, std::string{});
  }
}

Clock::time_point StoreClient::next_deadline() const noexcept {
  if (state_ != State::joined) {
    return abort_deadline_;
  }
  auto const silence = options_.rank == 0 ? Clock::time_point::max() : heard_ + options_.heartbeat_timeout;
  return std::min({abort_deadline_, next_beat_, silence});
}

bool StoreClient::has_sent_all() const noexcept { return connection_.has_sent_all(); }

void StoreClient::take(Frame const& frame) {
  BodyReader body{frame.body};
  switch (frame.kind) {
    case Kind::answer:
    case Kind::problem: {
      auto const found = calls_.find(frame.tag);
      if (found == calls_.end()) {
        throw BadFrame{"an answer to no question"};
      }
      auto const& call = found->second;
      if (frame.kind == Kind::problem) {
        auto const problem = static_cast<Problem>(body.number(1, 3));
        end_call(*call, outcome_of(problem), body.text(most_value_bytes));
      } else {
        call->values = decode_values(body, options_.world);
        call->done.add();
      }
      calls_.erase(found);
      return;
    }
    case Kind::beat: return;
    case Kind::aborted: {
      auto const origin = static_cast<int>(body.number(0, static_cast<std::uint64_t>(options_.world - 1)));
      fail({origin, body.text(most_value_bytes)});
      return;
    }
    case Kind::closing:
      state_ = State::alone;
      alone_because_ = options_.rank0 + " has left the job, and its store is closed";
      end_calls(alone_because_);
      return;
    default: throw BadFrame{"what only ranks say"};
  }
}

void StoreClient::fail(JobFailure const& failure) {
  if (state_ == State::failed) {
    return;
  }
  state_ = State::failed;
  abort_deadline_ = Clock::time_point::max();
  {
    std::lock_guard const lock{mutex_};
    failure_ = failure;
  }
  end_calls(failure.reason);
  failed_.add();
  if (!options_.on_failure) {
    return;
  }
  try {
    options_.on_failure(failure);
  } catch (std::exception const& error) {
    logger().error("{}a handler of failures threw: {}", rank_prefix(), error.what());
  }
}

void StoreClient::end_calls(std::string const& why) {
  for (auto const& [tag, call] : std::exchange(calls_, {})) {
    end_call(*call, StoreCall::Outcome::peer_error, why);
  }
}

void StoreClient::end_call(StoreCall& call, StoreCall::Outcome outcome, std::string const& text) {
  call.outcome = outcome;
  call.text = text;
  call.done.add();
}

std::optional<JobFailure> StoreClient::failure() const {
  std::lock_guard const lock{mutex_};
  return failure_;
}

}  // namespace zeroth::comm
