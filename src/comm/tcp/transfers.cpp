// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>
#include <utility>

#include "comm/operations.hpp"
#include "comm/spinning.hpp"
#include "core/hash.hpp"
#include "device/rank_fold.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// How long a rank polls for the others of its machine before it sleeps, if each has a core.
constexpr std::chrono::microseconds patience{50};

/// A hash of what must be equal on all ranks that take part in a collective, or on both sides of a message.
std::uint32_t outline_of(Collective const& collective) noexcept {
  Fnv1a32 hash;
  hash.add(static_cast<std::uint64_t>(is_message(collective.operation) ? Operation::send : collective.operation));
  hash.add(static_cast<std::uint64_t>(collective.dtype));
  hash.add(static_cast<std::uint64_t>(is_reduction(collective.operation) ? collective.reduce : Reduce::sum));
  hash.add(std::bit_cast<std::uint64_t>(collective.factor));
  hash.add(has_root(collective.operation) ? static_cast<std::uint64_t>(collective.peer) : std::uint64_t{0});
  hash.add(static_cast<std::uint64_t>(collective.count));
  return hash.value();
}

}  // namespace

Transfers::Transfers(TcpSession& session, Group const& group, std::shared_ptr<SharedQueues> queues, Await await)
    : session_{session},
      group_{group},
      queues_{std::move(queues)},
      await_{std::move(await)},
      member_of_(static_cast<std::size_t>(group.world()), -1),
      begun_(static_cast<std::size_t>(group.world() * tag_count)),
      full_(static_cast<std::size_t>(group.world())) {
  auto const members = session.members_here(group);
  member_count_ = static_cast<int>(members.size());
  for (std::size_t member = 0; member < members.size(); ++member) {
    member_of_[static_cast<std::size_t>(members[member])] = static_cast<int>(member);
  }
  for (int rank = 0; rank < group.world(); ++rank) {
    if (!is_here(rank)) {
      remote_.push_back(rank);
    }
  }
  // The session's thread receives network data, and spinning would take a core from it.
  spins_ = remote_.empty() && may_spin(static_cast<int>(session.ranks_on_machine()));
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

void Transfers::expect(Collective const* collective) noexcept {
  outline_ = collective == nullptr ? 0 : outline_of(*collective);
}

bool Transfers::show_if_room(int to, Tag tag, void const* data, std::int64_t bytes, std::uint32_t outline) {
  auto const shown =
      is_here(to) ? queues_->show(member_of(to), tag, data, bytes, outline) : SharedQueues::Shown::by_network;
  if (shown == SharedQueues::Shown::by_network) {
    send(to, tag, data, bytes, outline);
  }
  return shown != SharedQueues::Shown::full;
}

void Transfers::send(int to, Tag tag, void const* data, std::int64_t bytes, std::uint32_t outline) {
  auto free = std::find_if(sent_.begin(), sent_.end(),
                           [](auto const& each) { return each->done.load(std::memory_order_acquire); });
  if (free == sent_.end()) {
    free = sent_.insert(sent_.end(), std::make_unique<Sent>());
  }
  (*free)->tag = tag;
  (*free)->done.store(false, std::memory_order_relaxed);
  session_.links().show(group_.job_rank(to), {group_.id, tag}, data, bytes, outline,
                        {&(*free)->done, &queues_->event_count()});
}

void Transfers::want(Part& part) {
  part.by_network = true;
  part.borrowed = false;
  session_.links().want(group_.job_rank(part.from), {group_.id, part.tag}, part.offset, part.bytes, part.to, part.last,
                        part.outline, {&part.done, &queues_->event_count()});
}

void Transfers::show(int to, Tag tag, void const* data, std::int64_t bytes) {
  auto const shown = [&] { return show_if_room(to, tag, data, bytes); };
  wait(std::ref(shown));
}

bool Transfers::all_released(Tag tag) const {
  for (int rank = 0; rank < group_.world(); ++rank) {
    if (is_here(rank) && !queues_->has_taken(member_of(rank), tag)) {
      return false;
    }
  }
  return std::all_of(sent_.begin(), sent_.end(), [tag](auto const& each) {
    return each->tag != tag || each->done.load(std::memory_order_acquire);
  });
}

void Transfers::begin(Part& part, int from, Tag tag, std::int64_t offset, std::int64_t bytes, void* to, bool last,
                      std::uint32_t outline) {
  part.from = from;
  part.outline = outline;
  part.tag = tag;
  part.offset = offset;
  part.bytes = bytes;
  part.to = to;
  part.last = last;
  part.borrowed = part.by_network = false;
  part.at = static_cast<std::byte const*>(to);
  part.done.store(false, std::memory_order_relaxed);
  if (is_here(from)) {
    auto& begun = begun_[index(from, tag)];
    part.number = begun;
    begun += last ? 1 : 0;
  } else {
    want(part);
  }
}

void Transfers::begin_to_borrow(Part& part, int from, Tag tag, std::int64_t offset, std::int64_t bytes, void* to,
                                bool last) {
  begin(part, from, tag, offset, bytes, to, last);
  part.borrowed = is_here(from);
}

bool Transfers::has_come(Part& part) {
  if (part.by_network || part.done.load(std::memory_order_acquire)) {
    return part.done.load(std::memory_order_acquire);
  }
  int const member = member_of(part.from);
  auto const at = borrow(part);
  if (!at) {
    return false;
  }
  bool const is_here = *at != nullptr;
  if (!is_here) {
    want(part);
  } else if (part.borrowed) {
    part.at = *at;
  } else {
    device::copy_bytes(part.to, *at, part.bytes, part.bytes * (member_count_ - 1));  // in a gather, one of several
  }
  if (!part.borrowed && part.last && !queues_->release(member, part.tag, part.number)) {
    return false;  // the waiting thread waits for the job's failure
  }
  if (is_here) {
    part.done.store(true, std::memory_order_relaxed);
  }
  return part.done.load(std::memory_order_acquire);
}

std::optional<std::byte const*> Transfers::borrow(Part const& part) {
  try {
    return queues_->borrow(member_of(part.from), part.tag, part.number, part.offset, part.bytes, part.last,
                           part.outline);
  } catch (SharedQueues::WrongSize const& wrong) {
    throw SystemError{fmt::format(
        "{} sends {} bytes where this rank expects {}: check that all ranks run the same program with the same counts",
        group_.describe_rank(part.from), wrong.shown, part.offset + part.bytes)};
  } catch (SharedQueues::WrongCollective const&) {
    throw SystemError{fmt::format("{} {}", group_.describe_rank(part.from), in_another_collective)};
  }
}

void Transfers::release(Part const& part) {
  if (part.borrowed && part.last && !queues_->release(member_of(part.from), part.tag, part.number)) {
    auto const never = [] { return false; };
    wait(std::ref(never));  // for the job's failure
  }
}

void Transfers::wait(Holds const& holds) {
  auto& event_count = queues_->event_count();
  auto const wait_until = [&](Clock::time_point until) {
    while (true) {
      auto const seen = event_count.value();
      if (holds()) {
        return true;
      }
      (void)messages_done();  // another rank may need them before it reaches what this rank waits for
      auto const now = Clock::now();
      if (now >= until) {
        return false;
      }
      for (auto const end = now + patience; spins_ && event_count.value() == seen && Clock::now() < end;) {
      }
      event_count.wait(seen, until);
    }
  };
  await_(std::ref(wait_until));
}

// ---- messages -------------------------------------------------------------------------------------------------------

void Transfers::start_messages(std::span<Collective const> messages) {
  copy_own_messages(messages);
  message_count_ = 0;
  for (auto const& each : messages) {
    if (each.peer == group_.rank) {
      continue;
    }
    if (message_count_ == messages_.size()) {
      messages_.push_back(std::make_unique<Message>());
    }
    auto& message = *messages_[message_count_++];
    message.what = &each;
    message.begun = message.done = false;
  }
  (void)messages_done();
}

/// Copies messages to oneself, which match in pairs.
void Transfers::copy_own_messages(std::span<Collective const> messages) const {
  auto const is_own = [&](Collective const& each, Operation operation) {
    return each.operation == operation && each.peer == group_.rank;
  };
  auto receive = messages.begin();
  for (auto const& send : messages) {
    if (is_own(send, Operation::send)) {
      receive = std::find_if(receive, messages.end(),
                             [&](Collective const& each) { return is_own(each, Operation::receive); });
      if (receive != messages.end()) {
        device::copy_bytes(receive->output, send.input, send.count * bytes_of(send.dtype));
        ++receive;
      }
    }
  }
}

void Transfers::advance(Message& message) {
  auto const& what = *message.what;
  std::int64_t const bytes = what.count * bytes_of(what.dtype);
  if (what.operation == Operation::send) {
    bool const full = full_[static_cast<std::size_t>(what.peer)];  // messages are shown in the order of submission
    message.done = !full && show_if_room(what.peer, Tag::messages, what.input, bytes, outline_of(what));
    full_[static_cast<std::size_t>(what.peer)] = !message.done;
    return;
  }
  if (!message.begun) {
    message.begun = true;
    begin(message.part, what.peer, Tag::messages, 0, bytes, what.output, true, outline_of(what));
  }
  message.done = has_come(message.part);
}

bool Transfers::messages_done() {
  bool all = true;
  full_.assign(full_.size(), false);
  for (std::size_t i = 0; i < message_count_; ++i) {
    if (auto& message = *messages_[i]; !message.done) {
      advance(message);
      all = all && message.done;
    }
  }
  if (all && all_released(Tag::messages)) {
    message_count_ = 0;
  }
  return all && message_count_ == 0;
}

}  // namespace zeroth::comm
