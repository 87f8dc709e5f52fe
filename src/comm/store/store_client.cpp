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

using std::chrono::milliseconds;

constexpr std::chrono::seconds patience_for_abort{2};
/// Waits longer than rank 0, which knows more about silent ranks, so that it reports first.
milliseconds patience_with_rank0(milliseconds heartbeat_timeout) {
  return heartbeat_timeout + beat_interval(heartbeat_timeout) / 2;
}

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
      next_beat_{heard_ + beat_interval(options_.heartbeat_timeout)} {
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
  if (!std::exchange(asked_to_abort_, true)) {
    ask_to_fail(Kind::abort, Body{}.text(std::string_view{reason}.substr(0, most_value_bytes)).take(), reason,
                patience_for_abort);
  }
}

void StoreClient::begin_timeout_query() {
  if (state_ == State::joined && !in_timeout_query_.exchange(true, std::memory_order_relaxed)) {
    connection_.send(Kind::timeout_query, 0, std::string{});
  }
}

void StoreClient::report_timeout(TimeoutReport const& report) {
  auto const& [words, contacts] = report;
  std::string letters(contacts.size(), '\0');
  std::transform(contacts.begin(), contacts.end(), letters.begin(),
                 [](Contact each) { return static_cast<char>(each); });
  ask_to_fail(Kind::timeout_report,
              Body{}.text(std::string_view{words}.substr(0, most_value_bytes)).text(letters).take(), words,
              patience_for_timeout_reports + patience_for_abort);
}

void StoreClient::ask_to_fail(Kind kind, std::string body, std::string const& reason, milliseconds patience) {
  if (state_ == State::failed) {
    return;
  }
  auto deadline = Clock::now();  // if there is no rank 0 to tell
  if (state_ == State::joined) {
    connection_.send(kind, 0, std::move(body));
    deadline += patience;
  }
  own_reason_ = own_reason_.empty() ? reason : own_reason_;
  own_deadline_ = std::min(own_deadline_, deadline);
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
        fail({0,
              name_rank0() +
                  " ended without leaving the job: its process exited, was killed or crashed, or the connection broke",
              true});
      }
    } catch (BadFrame const& bad) {
      fail({0, fmt::format("{} sent {}", options_.rank0, bad.what())});
    }
  }
  if (now >= own_deadline_) {
    own_deadline_ = Clock::time_point::max();
    fail({options_.rank, own_reason_});
  }
  if (state_ == State::joined) {
    look_for_silence(now);
  }
}

/// Messages from rank 0 may be lost although it hears this rank: each heartbeat reports the silence, and so does the
/// end.
void StoreClient::look_for_silence(Clock::time_point now) {
  auto const silence = now - heard_;
  if (options_.rank != 0 && silence >= patience_with_rank0(options_.heartbeat_timeout)) {
    auto const reason = fmt::format(
        "rank {} on {} receives nothing from {}: no message for {}: rank 0 is frozen, or its messages are lost",
        options_.rank, options_.host, name_rank0(), describe(silence));
    connection_.send(Kind::unheard, 0, Body{}.text(std::string_view{reason}.substr(0, most_value_bytes)).take());
    fail({0, reason});
  } else if (now >= next_beat_) {
    next_beat_ = now + beat_interval(options_.heartbeat_timeout);
    auto const milliseconds_of_silence = std::chrono::duration_cast<milliseconds>(silence).count();
    connection_.send(Kind::beat, 0, Body{}.number(static_cast<std::uint64_t>(milliseconds_of_silence)).take());
  }
}

Clock::time_point StoreClient::next_deadline() const noexcept {
  if (state_ != State::joined) {
    return own_deadline_;
  }
  auto const silence =
      options_.rank == 0 ? Clock::time_point::max() : heard_ + patience_with_rank0(options_.heartbeat_timeout);
  return std::min({own_deadline_, next_beat_, silence});
}

bool StoreClient::has_sent_all() const noexcept { return connection_.has_sent_all(); }

void StoreClient::take(Frame const& frame) {
  BodyReader body{frame.body};
  switch (frame.kind) {
    case Kind::answer:
    case Kind::problem: {
      auto const found = calls_.find(frame.tag);
      if (found == calls_.end()) {
        throw BadFrame{"an answer without a request"};
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
    case Kind::timeout_query: in_timeout_query_.store(true, std::memory_order_relaxed); return;
    case Kind::aborted: {
      auto const origin = static_cast<int>(body.number(0, static_cast<std::uint64_t>(options_.world - 1)));
      bool const is_over = body.number(0, 1) != 0;
      fail({origin, body.text(most_value_bytes), is_over});
      return;
    }
    case Kind::closing:
      state_ = State::alone;
      alone_because_ = options_.rank0 + " has left the job, and its store is closed";
      end_calls(alone_because_);
      return;
    default: throw BadFrame{"a message that only ranks send"};
  }
}

void StoreClient::fail(JobFailure const& failure) {
  if (state_ == State::failed) {
    return;
  }
  state_ = State::failed;
  own_deadline_ = Clock::time_point::max();
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

std::string StoreClient::name_rank0() const {
  return options_.rank0 + (options_.groups_of ? options_.groups_of(0) : std::string{});
}

std::optional<JobFailure> StoreClient::failure() const {
  std::lock_guard const lock{mutex_};
  return failure_;
}

}  // namespace zeroth::comm
