// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_key_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "comm/describe.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using MessageKind = ControlMessage::Kind;
constexpr int keeper = 0;
/// For rank 0's answer, in addition to the wait of the call itself.
constexpr std::chrono::seconds patience_for_keeper{10};

}  // namespace

KeyValueAnswer MpiKeyValues::call(KeyValueCall const& call) {
  constexpr std::chrono::milliseconds poll_interval{10};
  auto const pending = std::make_shared<Pending>();
  std::uint64_t number = 0;
  {
    std::scoped_lock const lock{mutex_};
    number = ++last_number_;
    pending_.emplace(number, pending);
  }
  ways_.thread.post([this, number, bytes = encode(call)] {
    if (!ways_.thread.halted()) {
      send_bytes(MessageKind::key_value, keeper, number, bytes);
    }
  });
  auto const patience = call.wait + patience_for_keeper;
  auto const deadline = Clock::now() + patience;
  while (!pending->done.wait_until(1, std::min(deadline, Clock::now() + poll_interval))) {
    auto const failure = ways_.failure();
    if (failure || Clock::now() >= deadline) {
      std::scoped_lock const lock{mutex_};
      pending_.erase(number);
      throw PeerError{failure ? failure->reason
                              : fmt::format("rank {}, which keeps the key-value store, did not answer within {}",
                                            keeper, describe(patience))};
    }
  }
  return std::move(pending->answer);
}

void MpiKeyValues::send_bytes(MessageKind kind, int to, std::uint64_t number, std::string_view bytes) {
  if (to == rank_) {
    kind == MessageKind::key_value ? serve({to, number}, bytes) : end(number, decode_answer(bytes));
    return;
  }
  ControlMessage message{.kind = kind, .number = number, .sequence = bytes.size()};
  do {
    auto const part = bytes.substr(0, message.text.size());
    std::ranges::copy(part, message.text.begin());
    message.peer = static_cast<std::int32_t>(part.size());
    ways_.send(to, message);
    bytes.remove_prefix(part.size());
  } while (!bytes.empty());
}

/// MPI keeps the order of messages between two ranks.
void MpiKeyValues::take(ControlMessage const& message) {
  bool const is_answer = message.kind == MessageKind::key_value_answer;
  Caller const caller{message.sender, message.number};
  auto& bytes = partial_[{is_answer, caller}];
  bytes.append(message.text.data(), static_cast<std::size_t>(message.peer));
  if (bytes.size() < message.sequence) {
    return;
  }
  auto const whole = std::move(bytes);
  partial_.erase({is_answer, caller});
  is_answer ? end(message.number, decode_answer(whole)) : serve(caller, whole);
}

void MpiKeyValues::serve(Caller const& caller, std::string_view bytes) {
  auto const ticket = ++last_ticket_;
  waiting_.emplace(ticket, caller);
  if (auto answer = table_.call(decode_call(bytes), ticket, Clock::now())) {
    table_.answers.emplace_back(ticket, std::move(*answer));
  }
  send_answers();
}

bool MpiKeyValues::expire() {
  table_.expire(Clock::now());
  bool const any = !table_.answers.empty();
  send_answers();
  return any;
}

void MpiKeyValues::send_answers() {
  for (auto const& [ticket, answer] : std::exchange(table_.answers, {})) {
    auto const [rank, number] = waiting_.extract(ticket).mapped();
    send_bytes(MessageKind::key_value_answer, rank, number, encode(answer));
  }
}

void MpiKeyValues::end(std::uint64_t number, KeyValueAnswer answer) {
  std::scoped_lock const lock{mutex_};
  auto const found = pending_.extract(number);
  if (!found.empty()) {  // otherwise its caller has given up
    found.mapped()->answer = std::move(answer);
    found.mapped()->done.add();
  }
}

}  // namespace zeroth::comm
