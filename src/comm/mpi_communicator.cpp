#include "comm/mpi_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

#include "comm/describe.hpp"
#include "comm/finally.hpp"
#include "comm/mpi_call.hpp"
#include "comm/operations.hpp"
#include "comm/record.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm {
namespace {

/// How often who waits looks whether the job has failed.
constexpr std::chrono::milliseconds slice{10};

/// Marks the transaction that a split is.
constexpr std::string_view split_purpose = "split";

/// Names of communicators that no two of them share, without asking anybody.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t value = a * 0x9e3779b97f4a7c15U + b + 1;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  return value ^ (value >> 27U);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi(std::shared_ptr<MpiSession> session, CommOptions const& options) {
  MpiCommunicator::Group world{.handle = MPI_COMM_NULL,
                               .id = mix(0, session->next_job()),
                               .name = "world",
                               .job_ranks = std::vector<int>(static_cast<std::size_t>(session->world())),
                               .rank = session->rank()};
  std::iota(world.job_ranks.begin(), world.job_ranks.end(), 0);
  session->thread().run([&] {
    ZEROTH_MPI(MPI_Comm_dup(session->communicator(), &world.handle));
    ZEROTH_MPI(MPI_Comm_set_errhandler(world.handle, MPI_ERRORS_RETURN));
  });
  return std::make_unique<MpiCommunicator>(std::move(session), std::move(world), options);
}

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiSession> session, Group group, CommOptions const& options)
    : session_{std::move(session)},
      group_{std::move(group)},
      options_{options},
      transfers_{session_->thread(), group_.handle, group_.rank, world(),
                 [this](MpiOperation const& operation) { await(operation); }},
      digests_(group_.job_ranks.size()) {
  session_->enter(group_.id, position_begun_);
}

MpiCommunicator::~MpiCommunicator() {
  leaving_.store(true, std::memory_order_release);
  ended_.wait_for(begun_.load(std::memory_order_acquire));
  session_->leave(group_.id, group_.job_ranks, position_ended_);
  session_->thread().post([&thread = session_->thread(), handle = group_.handle]() mutable {
    if (!thread.halted()) {
      MPI_Comm_free(&handle);
    }
  });
}

void MpiCommunicator::set_options(CommOptions const& options) {
  check(options);
  options_ = options;
}

// ---- submitting -----------------------------------------------------------------------------------------------------

void MpiCommunicator::do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) {
  auto& cpu = device::as_cpu(stream);
  auto const staging = staging_for(label, collectives);
  Transaction& transaction = take(label, collectives);
  transaction.sequence = ++submitted_;
  for (auto const& each : collectives) {
    transaction.tickets.push_back(recorder().enqueue(make_record(name(), transaction.sequence, label, each)));
  }
  cpu.post([this, &transaction, staging, check = options_.check, turn = ++turns_] {
    in_turn(turn, transaction, [&] { run(transaction, check, staging); });
  });
}

Transaction& MpiCommunicator::take(Label const& label, std::span<Collective const> collectives) {
  Transaction& transaction = pool_.take(label, collectives);
  positions_ += transaction.is_of_all() ? 1 : 0;
  transaction.position = positions_;
  transaction.timeout = options_.timeout;
  return transaction;
}

std::span<std::byte> MpiCommunicator::staging_for(Label const& label, std::span<Collective const> collectives) {
  std::int64_t needed_bytes = 0;
  for (auto const& each : collectives) {
    std::int64_t const bytes = MpiTransfers::staging_for(each, world());
    ZEROTH_EXPECTS(staging_.empty() || bytes <= static_cast<std::int64_t>(staging_.size()),
                   fmt::format("{} on communicator '{}' needs {} bytes of staging, and set_staging() gave {}: ask "
                               "staging_bytes() for the largest reduction of every dtype",
                               describe(label, each), name(), bytes, staging_.size()));
    needed_bytes = std::max(needed_bytes, bytes);
  }
  if (!staging_.empty() || needed_bytes == 0) {
    return staging_;
  }
  if (needed_bytes > own_staging_bytes_) {  // transactions under way keep what they were given
    own_staging_bytes_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(needed_bytes)));
    own_staging_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(own_staging_bytes_)));
  }
  return {own_staging_.back().get(), static_cast<std::size_t>(own_staging_bytes_)};
}

std::unique_ptr<Communicator> MpiCommunicator::do_split(int color, int key, std::string const& name) {
  struct Wish {
    int color, key;
  };
  std::vector<Wish> wishes(group_.job_ranks.size());
  Group group{.handle = MPI_COMM_NULL,
              .id = mix(mix(group_.id, ++splits_), static_cast<std::uint64_t>(color)),
              .name = name,
              .job_ranks = {},
              .rank = 0};
  Transaction& transaction = take({split_purpose, {}}, {});  // names may differ: parts have their own
  new_name_ = name;
  in_turn(++turns_, transaction, [&] {
    compare(transaction);
    Wish const mine{color, key};
    transfers_.exchange(&mine, wishes.data(), sizeof mine);
    // Everybody is here, so this waits for nobody who is late.
    session_->thread().run([&] {
      ZEROTH_MPI(MPI_Comm_split(group_.handle, color < 0 ? MPI_UNDEFINED : color, key, &group.handle));
      if (color >= 0) {
        ZEROTH_MPI(MPI_Comm_set_errhandler(group.handle, MPI_ERRORS_RETURN));
      }
    });
  });
  if (color < 0) {
    return nullptr;
  }
  std::vector<int> ranks;
  for (int each = 0; each < world(); ++each) {
    if (wishes[static_cast<std::size_t>(each)].color == color) {
      ranks.push_back(each);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  group.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  std::transform(ranks.begin(), ranks.end(), std::back_inserter(group.job_ranks),
                 [this](int each) { return group_.job_ranks[static_cast<std::size_t>(each)]; });
  return std::make_unique<MpiCommunicator>(session_, std::move(group), options_);
}

// ---- running, on the stream's thread --------------------------------------------------------------------------------

template <class Work>
void MpiCommunicator::in_turn(std::uint32_t turn, Transaction& transaction, Work const& work) {
  begun_.fetch_add(1, std::memory_order_acq_rel);
  Finally const end{[this, &transaction] {
    pool_.give_back(transaction);
    turn_.add();
    ended_.add();  // last: from here on the communicator may be gone
  }};
  await_turn(turn, transaction);
  current_ = &transaction;
  awaits_messages_ = false;
  for (auto const ticket : transaction.tickets) {
    recorder().started(ticket);
  }
  try {
    if (auto const failure = session_->failure()) {
      throw PeerError{
          fmt::format("{}; {} was about to enter {}", failure->reason, describe_rank(rank()), describe_current())};
    }
    position_begun_.store(transaction.position, std::memory_order_release);
    work();
  } catch (PeerError const&) {
    throw;  // everybody knows
  } catch (std::exception const& error) {
    fail(fmt::format("rank {} failed in {}: {}", session_->rank(), describe_current(), error.what()));
  }
  position_ended_ = transaction.position;
  if (!transaction.group.empty()) {
    last_ended_ = make_record(name(), transaction.sequence, transaction.label, transaction.group.front());
  }
  for (auto const ticket : transaction.tickets) {
    recorder().finished(ticket);
  }
}

/// Gives up later than a transaction before this one that waits for a rank, and can say for which.
void MpiCommunicator::await_turn(std::uint32_t turn, Transaction const& transaction) {
  auto const begin = Clock::now();
  auto const deadline = begin + 2 * transaction.timeout;
  while (!turn_.wait_until(turn - 1, std::min(deadline, Clock::now() + slice))) {
    if (auto const failure = session_->failure()) {
      throw PeerError{failure->reason};
    }
    if (Clock::now() >= deadline) {
      fail(fmt::format(
          "{} waited {} in the queue before {}, transaction {} of communicator '{}', behind its earlier "
          "ones on other streams",
          describe_rank(rank()), describe(Clock::now() - begin), describe(transaction), transaction.sequence, name()));
    }
  }
}

void MpiCommunicator::run(Transaction const& transaction, bool check, std::span<std::byte> staging) {
  if (check) {
    compare(transaction);
    compare_messages(transaction);
  }
  if (!transaction.messages.empty()) {
    transfers_.start_messages(transaction.messages);
  }
  for (auto const& each : transaction.group) {
    transfers_.run(each, staging);
  }
  if (!transaction.messages.empty()) {
    awaits_messages_ = true;
    transfers_.await_messages();
  }
}

void MpiCommunicator::compare(Transaction const& transaction) {
  if (transaction.group.empty() && !transaction.messages.empty()) {
    return;  // concerns some ranks only
  }
  TransactionDigest const mine = digest_of(transaction);
  transfers_.exchange(&mine, digests_.data(), sizeof mine);
  auto const other =
      std::find_if(digests_.begin(), digests_.end(), [&](auto const& each) { return each != digests_[0]; });
  if (other == digests_.end()) {
    return;
  }
  auto const longest = std::max_element(digests_.begin(), digests_.end(),
                                        [](auto const& a, auto const& b) { return a.count < b.count; });
  std::size_t const bytes = outline_bytes(longest->count);
  std::vector<std::byte> outline(bytes);
  std::vector<std::byte> outlines(bytes * digests_.size());
  write_outline(transaction, outline);
  transfers_.exchange(outline.data(), outlines.data(), static_cast<std::int64_t>(bytes));
  auto const of = [&](std::size_t rank) { return read_outline({outlines.data() + rank * bytes, bytes}); };
  auto const differing = static_cast<std::size_t>(other - digests_.begin());
  // All ranks find out at the same time, and say the same; one of them is named as the one that says it first.
  fail(group_.job_ranks.front(),
       disagreement(name(), describe_rank(0), of(0), describe_rank(static_cast<int>(differing)), of(differing)));
}

/// Sender and receiver tell each other what they are about to do, so that both find out if it is not the same.
void MpiCommunicator::compare_messages(Transaction const& transaction) {
  if (transaction.messages.empty()) {
    return;
  }
  std::size_t const bytes = outline_bytes(1);
  std::vector<std::byte> said(bytes * transaction.messages.size());
  std::vector<std::byte> heard(said.size());
  auto const outline = [bytes](std::vector<std::byte>& all, std::size_t i) {
    return std::span{all.data() + i * bytes, bytes};
  };
  for (std::size_t i = 0; i < transaction.messages.size(); ++i) {
    Transaction alone;
    alone.label = transaction.label;
    alone.sequence = transaction.sequence;
    alone.group = {transaction.messages[i]};
    write_outline(alone, outline(said, i));
  }
  awaits_messages_ = true;
  transfers_.exchange_with_peers(transaction.messages, said.data(), heard.data(), static_cast<std::int64_t>(bytes));
  awaits_messages_ = false;
  for (std::size_t i = 0; i < transaction.messages.size(); ++i) {
    check_message(transaction, transaction.messages[i], read_outline(outline(heard, i)));
  }
}

void MpiCommunicator::check_message(Transaction const& transaction, Collective const& mine, Transaction const& other) {
  if (same_message(mine, other.group[0])) {
    return;
  }
  auto const difference =
      message_difference(name(), {describe_rank(rank()), transaction.sequence, transaction.label, mine},
                         {describe_rank(mine.peer), other.sequence, other.label, other.group[0]});
  int const sender = mine.operation == Operation::send ? rank() : mine.peer;
  fail(group_.job_ranks[static_cast<std::size_t>(sender)], difference);
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void MpiCommunicator::await(MpiOperation const& operation) {
  auto const begin = Clock::now();
  auto const deadline = begin + current_->timeout;
  while (!operation.wait_until(std::min(deadline, Clock::now() + slice))) {
    if (auto const failure = session_->failure()) {
      throw PeerError{fmt::format("{}; {} was in {}", failure->reason, describe_rank(rank()), describe_current())};
    }
    if (leaving_.load(std::memory_order_acquire)) {
      fail(fmt::format("{} left during its own {}", describe_rank(rank()), describe_current()));
    }
    if (auto const leaver = find_leaver()) {
      // What it sent before it left is on its way.
      if (operation.wait_until(Clock::now() + 10 * slice)) {
        return;
      }
      fail(
          fmt::format("rank {} left; {} was waiting for it in {}", *leaver, describe_rank(rank()), describe_current()));
    }
    if (Clock::now() >= deadline) {
      time_out(begin);
    }
  }
}

/// The ranks of the job without which what runs now cannot end.
std::vector<int> MpiCommunicator::awaited() const {
  return awaited_ranks(*current_, awaits_messages_, rank(), group_.job_ranks);
}

/// One of them that will not come, because it has ended this communicator.
std::optional<int> MpiCommunicator::find_leaver() const {
  auto const leavers = session_->leavers(group_.id);
  if (leavers.empty()) {
    return std::nullopt;
  }
  auto const needed = awaited();
  auto const found = std::find_if(leavers.begin(), leavers.end(), [&](MpiLeaver const& each) {
    return (awaits_messages_ || each.last < current_->position) &&
           std::find(needed.begin(), needed.end(), each.rank) != needed.end();
  });
  return found == leavers.end() ? std::nullopt : std::optional{found->rank};
}

void MpiCommunicator::time_out(Clock::time_point begin) {
  auto const waited = Clock::now() - begin;
  std::string missing;
  std::string elsewhere;
  for (auto const& place : session_->ask(group_.id, awaited())) {
    bool const absent = !place.answered || awaits_messages_ || place.begun < current_->position;
    auto const words = place.answered ? fmt::format("rank {}, which {}", place.rank, place.words)
                                      : fmt::format("rank {}, which does not answer: it is frozen or gone, {}",
                                                    place.rank, describe_last_ended());
    auto& list = absent ? missing : elsewhere;
    list += (list.empty() ? "" : "; ") + words;
  }
  if (auto const failure = session_->failure()) {
    throw PeerError{fmt::format("{}; {} was in {}", failure->reason, describe_rank(rank()), describe_current())};
  }
  fail(fmt::format("{} waited {} in {}; missing: {}", describe_rank(rank()), describe(waited), describe_current(),
                   missing.empty() ? fmt::format("nobody any more; here are {}", elsewhere) : missing));
}

void MpiCommunicator::fail(int origin, std::string const& reason) {
  session_->fail(origin, reason);
  throw PeerError{reason};
}

// ---- in words -------------------------------------------------------------------------------------------------------

std::string MpiCommunicator::describe_rank(int rank) const {
  return comm::describe_rank(name(), rank, group_.job_ranks[static_cast<std::size_t>(rank)]);
}

std::string MpiCommunicator::describe_current() const {
  if (current_->label.purpose == split_purpose) {
    return fmt::format("split into '{}' of communicator '{}'", new_name_, name());
  }
  return fmt::format("{}, transaction {} of communicator '{}'", describe(*current_), current_->sequence, name());
}

std::string MpiCommunicator::describe_last_ended() const {
  if (last_ended_.sequence == 0) {
    return "and no transaction has ended here before";
  }
  return fmt::format("and was last seen in {} ({}{}{}), transaction {}", last_ended_.what, last_ended_.purpose,
                     last_ended_.unit[0] == '\0' ? "" : " of unit ", last_ended_.unit, last_ended_.sequence);
}

}  // namespace zeroth::comm
