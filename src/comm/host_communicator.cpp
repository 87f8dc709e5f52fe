// SPDX-License-Identifier: Apache-2.0
#include "comm/host_communicator.hpp"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <utility>

#include "comm/describe.hpp"
#include "comm/finally.hpp"
#include "comm/operations.hpp"
#include "comm/rank_error.hpp"
#include "comm/record.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm {

HostCommunicator::HostCommunicator(HostJob& job, Group group, CommOptions const& options)
    : job_{job}, group_{std::move(group)}, options_{options}, pool_{group_.job_ranks}, agreement_{group_.world()} {
  job_.enter(group_.id, position_begun_);
}

void HostCommunicator::end() {
  leaving_.store(true, std::memory_order_release);
  ended_.wait_for(begun_.load(std::memory_order_acquire));
  job_.memberships().remove(group_.id);
  job_.leave(group_.id, group_.job_ranks, position_ended_);
}

void HostCommunicator::set_options(CommOptions const& options) {
  check(options);
  options_ = options;
}

// ---- submitting -----------------------------------------------------------------------------------------------------

void HostCommunicator::do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) {
  auto& cpu = device::as_cpu(stream);
  auto const staging = find_staging(label, collectives);
  Transaction& transaction = pool_.take(label, collectives, options_.timeout);
  transaction.sequence = ++submitted_;
  for (auto const& each : collectives) {
    transaction.records.push_back(recorder().enqueue(make_record(name(), transaction.sequence, label, each)));
  }
  cpu.post([this, &transaction, staging, check = options_.check, ticket = ++tickets_] {
    in_order(ticket, transaction, [&] { run_all(transaction, check, staging); });
  });
}

std::span<std::byte> HostCommunicator::find_staging(Label const& label, std::span<Collective const> collectives) {
  std::int64_t needed_bytes = 0;
  for (auto const& each : collectives) {
    std::int64_t const bytes = staging_for(each);
    ZEROTH_EXPECTS(staging_.empty() || bytes <= static_cast<std::int64_t>(staging_.size()),
                   fmt::format("{} on communicator '{}' needs {} bytes of staging, and set_staging() gave {}: ask "
                               "staging_bytes() for the largest reduction of every dtype",
                               describe(label, each, group_.job_ranks), name(), bytes, staging_.size()));
    needed_bytes = std::max(needed_bytes, bytes);
  }
  if (!staging_.empty() || needed_bytes == 0) {
    return staging_;
  }
  if (needed_bytes > own_staging_bytes_) {  // transactions in flight keep their buffer
    own_staging_bytes_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(needed_bytes)));
    own_staging_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(own_staging_bytes_)));
  }
  return {own_staging_.back().get(), static_cast<std::size_t>(own_staging_bytes_)};
}

std::unique_ptr<Communicator> HostCommunicator::do_split(int color, int key, std::string const& name) {
  Transaction& transaction = pool_.take({split_purpose, {}}, {}, options_.timeout);
  new_name_ = name;  // ranks may give different names, as each part has its own
  std::unique_ptr<Communicator> part;
  in_order(++tickets_, transaction, [&] {
    SplitRequest const mine{color, key};
    compare(transaction, mine);
    // All ranks are here, so making the part does not wait for a late rank.
    auto const requests = agreement_.requests();
    auto group = part_of(group_, ++splits_, requests, name);
    job_.memberships().add(group_, requests, group);
    part = make_part(mine, std::move(group));
  });
  return part;
}

std::unique_ptr<Communicator> HostCommunicator::do_create_group(std::uint64_t id, std::span<int const> ranks,
                                                                std::string const& name) {
  auto part = group_of(group_, id, ranks, name);
  job_.memberships().add(group_, requests_for(group_, ranks), part);
  return make_group(ranks, std::move(part));
}

std::unique_ptr<Registration> HostCommunicator::do_register(device::Memory const& memory) {
  if (!wants_memory()) {
    return nullptr;
  }
  Transaction& transaction = pool_.take({"register", "memory"}, {}, options_.timeout);
  std::unique_ptr<Registration> registration;
  in_order(++tickets_, transaction, [&] {
    compare(transaction, {});
    registration = make_known(memory);
  });
  return registration;
}

// ---- running, on the stream's thread --------------------------------------------------------------------------------

template <class Work>
void HostCommunicator::in_order(std::uint32_t ticket, Transaction& transaction, Work const& work) {
  begun_.fetch_add(1, std::memory_order_acq_rel);
  Finally const end{[this, &transaction] {
    pool_.recycle(transaction);
    served_.add();
    ended_.add();  // last: from here on the communicator may be destroyed
  }};
  await_ticket(ticket, transaction);
  current_ = &transaction;
  awaits_messages_ = false;
  for (auto const record : transaction.records) {
    recorder().started(record);
  }
  try {
    if (auto const failure = job_.failure()) {
      throw PeerError{
          fmt::format("{}; {} was about to enter {}", failure->reason, describe_this_rank(), describe_current())};
    }
    position_begun_.store(transaction.position, std::memory_order_release);
    work();
  } catch (PeerError const&) {
    throw;  // all ranks know it
  } catch (std::exception const&) {
    fail(fmt::format("rank {} failed in {}: {}", job_.rank(), describe_current(), describe_current_exception().bare));
  }
  position_ended_ = transaction.position;
  if (!transaction.collectives.empty()) {
    last_ended_ = make_record(name(), transaction.sequence, transaction.label, transaction.collectives.front());
  }
  for (auto const record : transaction.records) {
    recorder().finished(record);
  }
}

/// Waits for earlier transactions. The timeout is longer than theirs, because one that waits for a rank can name it.
void HostCommunicator::await_ticket(std::uint32_t ticket, Transaction const& transaction) {
  auto const begin = Clock::now();
  auto const deadline = begin + 2 * transaction.timeout;
  while (!served_.wait_until(ticket - 1, std::min(deadline, Clock::now() + poll_interval))) {
    if (auto const failure = job_.failure()) {
      throw PeerError{failure->reason};
    }
    if (Clock::now() >= deadline) {
      fail(fmt::format(
          "{} waited {} to start {}, transaction {} of communicator '{}', behind its earlier transactions on other "
          "streams",
          describe_this_rank(), describe(Clock::now() - begin), describe(transaction), transaction.sequence, name()));
    }
  }
}

void HostCommunicator::run_all(Transaction const& transaction, bool check, std::span<std::byte> staging) {
  if (check && transaction.is_of_all()) {
    compare(transaction, {});
  }
  if (check && !transaction.messages.empty()) {
    compare_messages(transaction);
  }
  if (!transaction.messages.empty()) {
    start_messages(transaction.messages);
  }
  for (auto const& each : transaction.collectives) {
    run(each, staging);
  }
  if (!transaction.messages.empty()) {
    awaits_messages_ = true;
    await_messages();
  }
}

void HostCommunicator::compare(Transaction const& transaction, SplitRequest const& request) {
  auto const disagreement =
      agreement_.compare(group_, transaction, request,
                         [this](void const* mine, void* all, std::int64_t bytes) { exchange(mine, all, bytes); });
  if (!disagreement.empty()) {  // one of the ranks is named as the origin
    fail(group_.job_ranks.front(), disagreement);
  }
}

/// Sender and receiver exchange descriptions of what they are about to do, so that both detect a mismatch.
void HostCommunicator::compare_messages(Transaction const& transaction) {
  std::size_t const bytes = message_outline_bytes();
  std::vector<std::byte> sent(bytes * transaction.messages.size());
  std::vector<std::byte> received(sent.size());
  for (std::size_t i = 0; i < transaction.messages.size(); ++i) {
    write_message_outline(transaction, transaction.messages[i], {sent.data() + i * bytes, bytes});
  }
  awaits_messages_ = true;
  exchange_with_peers(transaction.messages, sent.data(), received.data(), static_cast<std::int64_t>(bytes));
  awaits_messages_ = false;
  for (std::size_t i = 0; i < transaction.messages.size(); ++i) {
    auto const& mine = transaction.messages[i];
    auto const difference = compare_message(group_, transaction, mine, {received.data() + i * bytes, bytes});
    if (!difference.empty()) {
      fail(group_.job_rank(mine.operation == Operation::send ? rank() : mine.peer), difference);
    }
  }
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void HostCommunicator::expect_running() {
  if (auto const failure = job_.failure()) {
    throw PeerError{fmt::format("{}; {} was in {}", failure->reason, describe_this_rank(), describe_current())};
  }
  if (leaving_.load(std::memory_order_acquire)) {
    fail(fmt::format("{} left during its own {}", describe_this_rank(), describe_current()));
  }
}

/// The ranks of the job that the current transaction waits for.
std::vector<int> HostCommunicator::awaited() const {
  return awaited_ranks(*current_, awaits_messages_, rank(), group_.job_ranks);
}

/// One of the awaited ranks that will not come, because it has left this communicator.
std::optional<int> HostCommunicator::find_leaver() const {
  auto const leavers = job_.who_left(group_.id);
  if (leavers.empty()) {
    return std::nullopt;
  }
  auto const needed = awaited();
  auto const found = std::find_if(leavers.begin(), leavers.end(), [&](Leaver const& each) {
    return (awaits_messages_ || each.last < current_->position) &&
           std::find(needed.begin(), needed.end(), each.rank) != needed.end();
  });
  return found == leavers.end() ? std::nullopt : std::optional{found->rank};
}

void HostCommunicator::fail_without(int job_rank) {
  fail(fmt::format("rank {} left; {} was waiting for it in {}", job_rank, describe_this_rank(), describe_current()));
}

void HostCommunicator::time_out(Clock::time_point begin) {
  auto const waited = Clock::now() - begin;
  auto places = job_.ask_where(group_.id, awaited());
  std::vector<AwaitedRank> ranks;
  for (auto& place : places) {
    place.here = place.answered && !awaits_messages_ && place.begun >= current_->position;
    ranks.push_back({fmt::format("rank {}", place.rank), place.here,
                     place.answered ? place.words : fmt::format("{}, {}", no_answer, describe_last_ended())});
  }
  expect_running();
  auto reason = describe_missing(describe_this_rank(), waited, describe_current(), ranks, "none any more");
  if (places.size() > 1 &&
      std::none_of(places.begin(), places.end(), [](PeerStatus const& each) { return each.answered; })) {
    reason += fmt::format("; none of them answers: rank {} itself may receive nothing", job_.rank());
  }
  job_.report_timeout(reason, places);
  if (auto const failure = job_.failure(); failure && failure->reason != reason) {
    expect_running();
  }
  throw PeerError{reason};
}

void HostCommunicator::fail(int origin, std::string const& reason) {
  job_.fail(origin, reason);
  throw PeerError{reason};
}

// ---- descriptions ---------------------------------------------------------------------------------------------------

std::string HostCommunicator::describe_current() const {
  if (current_->label.purpose == split_purpose) {
    return fmt::format("split into '{}' of communicator '{}'", new_name_, name());
  }
  return fmt::format("{}, transaction {} of communicator '{}'", describe(*current_), current_->sequence, name());
}

std::string HostCommunicator::describe_last_ended() const {
  if (last_ended_.sequence == 0) {
    return "and no transaction has ended here before";
  }
  return fmt::format("and was last seen in {} ({}), transaction {}", last_ended_.what,
                     purpose_and_unit(last_ended_.purpose, last_ended_.unit), last_ended_.sequence);
}

}  // namespace zeroth::comm
