// SPDX-License-Identifier: Apache-2.0
#include "comm/local/local_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/describe.hpp"
#include "comm/finally.hpp"
#include "comm/local/local.hpp"
#include "comm/operations.hpp"
#include "comm/record.hpp"
#include "device/rank_fold.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm {
namespace {

std::string in_words(Transaction const& transaction) {
  return fmt::format("{}, transaction {}", describe(transaction), transaction.sequence);
}

std::uint32_t count_sends(Transaction const& transaction, int to) noexcept {
  return static_cast<std::uint32_t>(
      std::count_if(transaction.messages.begin(), transaction.messages.end(),
                    [to](Collective const& each) { return each.operation == Operation::send && each.peer == to; }));
}

/// Records `event`, which it makes on first use.
void record(device::PeerStream& stream, std::unique_ptr<device::Event>& event) {
  if (event == nullptr) {
    event = stream.make_event();
  }
  stream.record(*event);
}

}  // namespace

LocalCommunicator::LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank, CommOptions const& options)
    : group_{std::move(group)},
      rank_{rank},
      options_{options},
      pool_{group_->job_ranks()},
      share_{rank, group_->world()},
      of_ranks_(static_cast<std::size_t>(group_->world())) {}

LocalCommunicator::~LocalCommunicator() {
  group_->member(rank_).left.store(true, std::memory_order_release);
  ended_.wait_for(begun_.load(std::memory_order_acquire));
}

void LocalCommunicator::set_options(CommOptions const& options) {
  check(options);
  options_ = options;
}

void LocalCommunicator::do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) {
  auto* const gpu = dynamic_cast<device::PeerStream*>(&stream);
  auto* const cpu = gpu == nullptr ? &device::as_cpu(stream) : nullptr;
  ZEROTH_EXPECTS(gpu == nullptr || world() <= gpu->most_ranks(),
                 fmt::format("communicator '{}' has {} ranks; allowed for threads on GPUs: up to {}", name(), world(),
                             gpu->most_ranks()));
  for (auto const& each : collectives) {
    ZEROTH_EXPECTS(
        gpu == nullptr || device::PeerStream::folds(each.reduce, each.dtype),
        fmt::format("{} on communicator '{}': 'local' does not reduce {} by {} on GPU streams; allowed: sum, and "
                    "maximum and premul_sum of floating-point numbers",
                    describe(label, each, group_->job_ranks()), name(), name_of(each.dtype), name_of(each.reduce)));
  }
  Transaction& transaction = pool_.take(label, collectives, options_.timeout);
  transaction.stream = gpu;
  transaction.sequence = ++submitted_;
  for (auto const& each : collectives) {
    transaction.records.push_back(recorder().enqueue(make_record(name(), transaction.sequence, label, each)));
  }
  if (gpu != nullptr) {
    run_here(transaction);
  } else {
    cpu->post([this, &transaction] { run(transaction); });
  }
}

/// This runs on the caller's thread, because the caller may next enqueue work that depends on this transaction, on
/// streams that only it knows, and a stream can only wait for a recorded event. So the ranks have to meet before
/// submit() returns, and a helper thread would only be waited for. The host waits for other hosts here, and for no GPU.
/// Hosts that submit the same transactions in the same order all arrive.
void LocalCommunicator::run_here(Transaction& transaction) noexcept {
  auto& stream = *transaction.stream;
  if (stream.failed()) {
    return pool_.recycle(transaction);
  }
  try {
    run(transaction);
  } catch (PeerError const&) {
    stream.fail(std::current_exception());
  } catch (std::exception const& error) {
    stream.fail(std::current_exception());
    abort(fmt::format("{} failed in {}: {}", group_->describe_rank(rank_), name(), error.what()));
  }
}

void LocalCommunicator::run(Transaction& transaction) {
  begun_.fetch_add(1, std::memory_order_acq_rel);
  Finally const end{[this, &transaction] {
    pool_.recycle(transaction);
    served_.add();
    ended_.add();  // last: from here on the communicator may be destroyed
  }};
  await_ticket(transaction);
  for (auto const record : transaction.records) {
    recorder().started(record);
  }
  group_->expect_running(rank_, [&] { return in_words(transaction); });
  post_sends(transaction);
  try {
    do_group(transaction);
    for (auto const& each : transaction.messages) {
      if (each.operation == Operation::receive) {
        receive(transaction, each);
      }
    }
    for (int to = 0; to < world() && !transaction.messages.empty(); ++to) {
      await_taken(transaction, to);
    }
  } catch (...) {
    close_sends(transaction);
    throw;
  }
  for (auto const record : transaction.records) {
    recorder().finished(record);
  }
}

/// Transactions of one communicator run one after another, whatever their streams; a transaction's ticket is its
/// number. The timeout is longer than that of the earlier ones, because one that waits for a rank can name it.
void LocalCommunicator::await_ticket(Transaction const& transaction) {
  auto const before = static_cast<std::uint32_t>(transaction.sequence - 1);
  auto const why = group_->wait(
      rank_, 2 * transaction.timeout, [&](Clock::time_point until) { return served_.wait_until(before, until); },
      [](int) { return false; },
      [&] {
        return fmt::format(
            "the queue before {}, transaction {}, behind this rank's earlier transactions on other streams,",
            describe(transaction), transaction.sequence);
      });
  if (!why.empty()) {
    group_->fail(why);
  }
}

void LocalCommunicator::post_sends(Transaction const& transaction) {
  for (int to = 0; to < world() && !transaction.messages.empty(); ++to) {
    if (auto const count = count_sends(transaction, to); count > 0) {
      LocalChannel& channel = group_->channel(rank_, to);
      if (auto* const stream = transaction.stream; stream != nullptr) {
        record(*stream, channel.sent);
      }
      channel.post(transaction, count);
    }
  }
}

void LocalCommunicator::do_group(Transaction const& transaction) {
  if (transaction.collectives.empty()) {
    return;
  }
  auto* const stream = transaction.stream;
  auto& mine = group_->member(rank_);
  if (stream != nullptr) {
    if (mine.done == nullptr) {
      mine.done = stream->make_event();
    }
    record(*stream, mine.arrived);
  }
  std::string disagreement;
  group_->enter(rank_, transaction);
  {
    Finally const leave{[this] { group_->leave(rank_); }};
    disagreement = group_->disagreement();
    if (disagreement.empty()) {
      share(transaction);
    }
  }
  if (!disagreement.empty()) {
    group_->fail(disagreement);
  }
  if (stream != nullptr) {
    await_others(*stream);
  }
}

void LocalCommunicator::share(Transaction const& transaction) {
  auto* const stream = transaction.stream;
  for (int other = 0; other < world() && stream != nullptr; ++other) {
    if (other != rank_) {
      stream->follow(*group_->member(other).arrived);
    }
  }
  for (std::size_t i = 0; i < transaction.collectives.size(); ++i) {
    for (int rank = 0; rank < world(); ++rank) {
      of_ranks_[static_cast<std::size_t>(rank)] = &group_->member(rank).transaction->collectives[i];
    }
    share_.run(of_ranks_, stream);
  }
  if (stream != nullptr) {
    stream->record(*group_->member(rank_).done);
  }
}

/// The stream continues when no rank uses this rank's memory any more.
void LocalCommunicator::await_others(device::PeerStream& stream) {
  for (int other = 0; other < world(); ++other) {
    if (other != rank_) {
      stream.wait(*group_->member(other).done);
    }
  }
}

void LocalCommunicator::receive(Transaction const& transaction, Collective const& message) {
  LocalChannel& channel = group_->channel(message.peer, rank_);
  auto const why = group_->wait(
      rank_, transaction.timeout, [&](Clock::time_point until) { return channel.wait_until_posted(until); },
      [&](int other) { return other == message.peer && !channel.any_posted(); },
      [&] {
        return fmt::format("{}, transaction {}", describe(transaction.label, message, transaction.job_ranks),
                           transaction.sequence);
      });
  if (!why.empty()) {
    group_->fail(why);
  }
  Collective const* const sent = channel.claim(rank_);
  if (sent == nullptr) {
    group_->fail(group_->abort().reason());  // a rank that closes a channel has aborted, or seen an abort
  }
  Finally const taken{[&channel] { channel.taken(); }};
  if (!same_message(*sent, message)) {
    group_->fail(message_difference(
        name(),
        {group_->describe_rank(message.peer), channel.transaction().sequence, channel.transaction().label, *sent,
         group_->job_ranks()},
        {group_->describe_rank(rank_), transaction.sequence, transaction.label, message, group_->job_ranks()}));
  }
  auto const bytes = message.count * bytes_of(message.dtype);
  auto* const stream = transaction.stream;
  if ((stream == nullptr) != (channel.transaction().stream == nullptr)) {
    group_->fail(fmt::format("a message of communicator '{}' is between a GPU and the host: {} does {}, {} does {}",
                             name(), group_->describe_rank(message.peer),
                             describe(channel.transaction().label, *sent, group_->job_ranks()),
                             group_->describe_rank(rank_), describe(transaction.label, message, group_->job_ranks())));
  }
  if (stream == nullptr) {
    return device::copy_bytes(message.output, sent->input, bytes);
  }
  stream->follow(*channel.sent);
  if (channel.received != nullptr) {
    stream->wait(*channel.received);  // several streams may take the messages of one transaction
  }
  stream->copy(message.output, sent->input, bytes);
  record(*stream, channel.received);
}

void LocalCommunicator::await_taken(Transaction const& transaction, int receiver) {
  if (count_sends(transaction, receiver) == 0) {
    return;
  }
  LocalChannel& channel = group_->channel(rank_, receiver);
  auto const why = group_->wait(
      rank_, transaction.timeout, [&](Clock::time_point until) { return channel.wait_until_taken(until); },
      [&](int other) { return other == receiver && !channel.all_taken(); }, [&] { return in_words(transaction); });
  if (!why.empty()) {
    group_->fail(why);
  }
  if (group_->abort().aborted()) {  // taken, perhaps, and found invalid
    group_->fail(group_->abort().reason());
  }
  if (transaction.stream != nullptr) {
    transaction.stream->wait(*channel.received);
  }
}

void LocalCommunicator::close_sends(Transaction const& transaction) noexcept {
  for (int to = 0; to < world(); ++to) {
    if (count_sends(transaction, to) > 0) {
      group_->channel(rank_, to).close();
    }
  }
}

std::unique_ptr<Communicator> LocalCommunicator::do_split(int color, int key, std::string const& name) {
  auto const place = group_->split(rank_, color, key, name, options_.timeout);
  return place.group == nullptr ? nullptr : std::make_unique<LocalCommunicator>(place.group, place.rank, options_);
}

std::unique_ptr<Communicator> LocalCommunicator::do_create_group(std::uint64_t id, std::span<int const> ranks,
                                                                 std::string const& name) {
  auto const me = static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
  return std::make_unique<LocalCommunicator>(group_->create(id, ranks, name), me, options_);
}

std::vector<std::unique_ptr<Communicator>> make_local(int world, CommOptions const& options,
                                                      std::vector<std::shared_ptr<FlightRecorder>> recorders) {
  ZEROTH_EXPECTS(world > 0, fmt::format("make_local of {} ranks; at least 1 is needed", world));
  ZEROTH_EXPECTS(recorders.empty() || recorders.size() == static_cast<std::size_t>(world),
                 fmt::format("make_local of {} ranks was given {} flight recorders", world, recorders.size()));
  check(options);
  std::vector<LocalGroup::Member> members;
  for (int rank = 0; rank < world; ++rank) {
    members.push_back({rank, recorders.empty() ? std::make_shared<FlightRecorder>(rank, world)
                                               : recorders[static_cast<std::size_t>(rank)]});
    ZEROTH_EXPECTS(members.back().recorder != nullptr, fmt::format("the flight recorder of rank {} is null", rank));
  }
  auto const group = std::make_shared<LocalGroup>("world", members, std::make_shared<LocalJob>(world));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world; ++rank) {
    communicators.push_back(std::make_unique<LocalCommunicator>(group, rank, options));
  }
  return communicators;
}

}  // namespace zeroth::comm
