#include "comm/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "comm/agreement.hpp"
#include "comm/describe.hpp"
#include "comm/finally.hpp"
#include "comm/frame.hpp"
#include "comm/nccl_operations.hpp"
#include "comm/operations.hpp"
#include "comm/rank_error.hpp"
#include "comm/record.hpp"
#include "device/cuda_call.hpp"
#include "device/peer_stream.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;

/// Marks the transaction that a split is.
constexpr std::string_view split_purpose = "split";
constexpr milliseconds longest_time_at_the_end{30'000};
constexpr std::size_t most_brought_bytes = 4000;  // of one meeting

/// Names of communicators that no two of them share, without asking anybody.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t value = a * 0x9e3779b97f4a7c15U + b + 1;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  return value ^ (value >> 27U);
}

std::shared_ptr<NcclLink> make_link(NcclSession& session, NcclLink::Identity identity) {
  identity.gpu = session.gpu();
  return std::make_shared<NcclLink>(std::move(identity), session.recorder(), [&session] { return session.failure(); });
}

std::string in_words(Label const& label, std::span<Collective const> collectives) {
  return collectives.empty() ? std::string{label.purpose} : describe(label, collectives.front());
}

ncclUniqueId make_id() {
  ncclUniqueId id;
  if (auto const result = nccl().get_unique_id(&id); result != ncclSuccess) {
    throw SystemError{fmt::format("ncclGetUniqueId: {} ({})", nccl().error_string(result), nccl().last_error(nullptr))};
  }
  return id;
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(std::shared_ptr<NcclSession> session, CommOptions const& options) {
  check(options);
  NcclLink::Identity identity;
  identity.id = mix(0, 0);
  identity.job_ranks.resize(static_cast<std::size_t>(session->world()));
  std::iota(identity.job_ranks.begin(), identity.job_ranks.end(), 0);
  identity.rank = session->rank();
  identity.traits.name = "world";
  auto const link = make_link(*session, std::move(identity));
  try {
    auto const bytes = session->rendezvous().share(
        "nccl world", 0,
        [] {
          auto const fresh = make_id();
          return std::string{fresh.internal, sizeof fresh.internal};
        },
        options.timeout);
    ncclUniqueId id;
    ZEROTH_EXPECTS(bytes.size() == sizeof id.internal, fmt::format("an NCCL id of {} bytes", bytes.size()));
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    link->start(id, Clock::now() + options.timeout);
  } catch (...) {
    session->fail(
        fmt::format("rank {} could not make its communicator: {}", session->rank(), describe_current_exception().bare));
    throw;
  }
  return std::make_unique<NcclCommunicator>(std::move(session), link, options);
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclSession> session, std::shared_ptr<NcclLink> link,
                                   CommOptions const& options)
    : session_{std::move(session)},
      link_{std::move(link)},
      options_{options},
      sent_(link_->identity.job_ranks.size()),
      received_(link_->identity.job_ranks.size()),
      barrier_word_{session_->barrier_word()} {
  session_->watch().enter(link_);
}

/// What is on its way ends if the others come. If an exception unwinds this, they are told instead.
NcclCommunicator::~NcclCommunicator() {
  auto const first =
      std::uncaught_exceptions() > exceptions_at_birth_ ? link_->flights.describe_first() : std::string{};
  if (!first.empty()) {
    session_->fail(fmt::format("rank {} was ended by an exception, with {} of communicator '{}' on its way",
                               session_->rank(), first, name()));
  }
  auto const deadline = Clock::now() + time_at_the_end();
  while (!link_->flights.empty() && !session_->failed() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds{1});
  }
  if (auto const left = link_->flights.describe_first(); !left.empty() && !session_->failed()) {
    session_->fail(fmt::format("rank {} ended communicator '{}', and {} was still on its way {} later",
                               session_->rank(), name(), left, describe(time_at_the_end())));
  }
  if (auto const reason = session_->failure()) {  // the watch may not have come to this one
    link_->flights.fail(std::make_exception_ptr(PeerError{*reason}));
  }
  session_->watch().leave(*link_);
  link_->finish(deadline);
}

void NcclCommunicator::set_options(CommOptions const& options) {
  check(options);
  options_ = options;
}

milliseconds NcclCommunicator::time_at_the_end() const noexcept {
  return std::min(options_.timeout, longest_time_at_the_end);
}

void NcclCommunicator::fail(std::string const& reason) {
  session_->fail(reason);
  throw PeerError{session_->failure().value_or(reason)};
}

// ---- submitting -----------------------------------------------------------------------------------------------------

Transaction& NcclCommunicator::take(Label const& label, std::span<Collective const> collectives) {
  Transaction& transaction = link_->flights.take(label, collectives);
  positions_ += transaction.is_of_all() ? 1 : 0;
  transaction.position = positions_;
  transaction.timeout = options_.timeout;
  return transaction;
}

/// What a transaction fails with that comes after the job's end.
std::exception_ptr NcclCommunicator::ended_before(Label const& label, std::span<Collective const> collectives) const {
  return std::make_exception_ptr(
      PeerError{fmt::format("{}; {} was about to enter {} on communicator '{}'", session_->failure().value_or(""),
                            describe_rank(*link_, rank()), in_words(label, collectives), name())});
}

void NcclCommunicator::do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) {
  auto* const gpu = dynamic_cast<device::PeerStream*>(&stream);
  if (session_->failed() && gpu != nullptr) {
    return gpu->fail(ended_before(label, collectives));
  }
  if (session_->failed()) {  // says so on whatever stream it is
    return device::as_cpu(stream).post([session = session_.get()] { throw PeerError{*session->failure()}; });
  }
  ZEROTH_EXPECTS(gpu != nullptr, fmt::format("communicator '{}' is NCCL's, which works on streams of a GPU, and was "
                                             "given one of the host",
                                             name()));
  ZEROTH_EXPECTS(
      gpu->native().native != cudaStreamPerThread,
      fmt::format("communicator '{}' is NCCL's, which launches from threads of its own, and was given "
                  "cudaStreamPerThread, which is another stream to each thread; compute on a stream that the "
                  "program made, or on the default stream (null)",
                  name()));
  if (gpu->failed()) {
    return;
  }
  Transaction& transaction = take(label, collectives);
  transaction.sequence = ++sequence_;
  // Before anything waits for others: who is asked meanwhile is here.
  link_->submitted.store(transaction.position, std::memory_order_release);
  for (auto const& each : collectives) {
    transaction.tickets.push_back(recorder().enqueue(make_record(name(), transaction.sequence, label, each)));
  }
  try {
    prepare(transaction);
    launch(transaction, gpu->failure(), static_cast<cudaStream_t>(gpu->native().native));
  } catch (...) {
    if (session_->failed()) {  // everybody knows
      return gpu->fail(ended_before(label, collectives));
    }
    gpu->fail(std::current_exception());
    session_->fail(fmt::format("rank {} failed in {} on communicator '{}': {}", session_->rank(),
                               in_words(label, collectives), name(), describe_current_exception().bare));
  }
}

/// Gives the transaction back if it is not to be launched.
void NcclCommunicator::prepare(Transaction& transaction) {
  if (!options_.check) {
    return;
  }
  try {
    agree(transaction, {});
    compare_messages(transaction);
  } catch (...) {
    link_->flights.give_back(transaction);
    throw;
  }
}

/// The first of a kind waits on the host for those of the other ranks: NCCL connects them when they are needed.
void NcclCommunicator::launch(Transaction& transaction, std::shared_ptr<device::Failure> failure, cudaStream_t stream) {
  auto const begun = Clock::now();
  auto const deadline = begun + transaction.timeout;
  auto& flight = link_->flights.begin(transaction, std::move(failure), stream);
  try {
    for (auto const part : {NcclPart::native, NcclPart::built, NcclPart::messages}) {
      if (has_part(transaction, part)) {
        link_->call("ncclGroupEnd", deadline, [&](ncclComm_t handle) {
          return issue_part({handle, stream, rank(), world(), barrier_word_}, transaction, part);
        });
      }
    }
  } catch (PeerError const& error) {
    auto const late = session_->failed()
                          ? std::string{}
                          : fmt::format("{} ({})", session_->explain_late(*link_, transaction, begun), error.what());
    link_->flights.cancel(flight);
    if (late.empty()) {
      throw;
    }
    fail(late);
  } catch (...) {
    link_->flights.cancel(flight);
    throw;
  }
  link_->flights.launched(flight, stream);
  if (session_->failed()) {  // the watch may have failed what was on its way before this was
    throw PeerError{"the job failed"};
  }
}

// ---- among hosts ----------------------------------------------------------------------------------------------------

template <class Wait>
auto NcclCommunicator::in_time(Transaction const& transaction, Wait const& wait) {
  auto const begun = Clock::now();
  try {
    return wait();
  } catch (PeerError const& error) {
    if (auto const reason = session_->rendezvous().store().failure()) {
      throw PeerError{fmt::format("{}; {} was about to enter {}", reason->reason, describe_rank(*link_, rank()),
                                  describe_on(*link_, transaction))};
    }
    // Not by the clock: the first rank's time ends a gather for those who came later, too.
    if (dynamic_cast<LateError const*>(&error) == nullptr) {
      fail(fmt::format("{}; {} was about to enter {}", describe_current_exception().bare, describe_rank(*link_, rank()),
                       describe_on(*link_, transaction)));
    }
  }
  fail(session_->explain_late(*link_, transaction, begun));
}

std::vector<std::string> NcclCommunicator::meet(Transaction const& transaction, std::string const& what,
                                                std::string const& value) {
  auto const place = fmt::format("{:016x} {}", link_->identity.id, what);
  return in_time(transaction,
                 [&] { return session_->meet(place, link_->identity.job_ranks, value, transaction.timeout); });
}

std::vector<std::string> NcclCommunicator::agree(Transaction const& transaction, std::string const& brings) {
  if (!transaction.is_of_all()) {
    return {};
  }
  auto const mine = digest_of(transaction);
  auto all = meet(transaction, "agree", Body{}.number(mine.hash).number(mine.count).text(brings).take());
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> hashes;
  for (auto& each : all) {
    BodyReader reader{each};
    hashes.push_back(reader.number());
    counts.push_back(reader.number());
    each = reader.text(most_value_bytes);
  }
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (hashes[other] != hashes[0] || counts[other] != counts[0]) {
      disagree(transaction, counts, other);
    }
  }
  return all;
}

/// All ranks find out at the same time, and say the same.
void NcclCommunicator::disagree(Transaction const& transaction, std::vector<std::uint64_t> const& counts,
                                std::size_t differing) {
  std::vector<std::byte> outline(outline_bytes(*std::max_element(counts.begin(), counts.end())));
  write_outline(transaction, outline);
  std::string const mine{reinterpret_cast<char const*>(outline.data()), outline.size()};
  std::vector<std::string> whole(counts.size());
  for (std::size_t at = 0; at < mine.size(); at += most_brought_bytes) {
    auto const parts = meet(transaction, "outline", mine.substr(at, most_brought_bytes));
    for (std::size_t each = 0; each < parts.size(); ++each) {
      whole[each] += parts[each];
    }
  }
  auto const of = [&](std::size_t rank) {
    return read_outline({reinterpret_cast<std::byte const*>(whole[rank].data()), whole[rank].size()});
  };
  fail(disagreement(name(), describe_rank(*link_, 0), of(0), describe_rank(*link_, static_cast<int>(differing)),
                    of(differing)));
}

/// Sender and receiver tell each other what they are about to do, so that both find out if it is not the same.
void NcclCommunicator::compare_messages(Transaction const& transaction) {
  struct Side {
    std::string theirs;
    Collective const* message;
  };
  std::vector<Side> sides;
  auto& store = session_->rendezvous().store();
  for (auto const& each : transaction.messages) {
    bool const sends = each.operation == Operation::send;
    auto const number = (sends ? sent_ : received_)[static_cast<std::size_t>(each.peer)]++;
    auto const key = [&](char const* side) {
      return fmt::format("nccl {:016x} {} to {} #{} {}", link_->identity.id, sends ? rank() : each.peer,
                         sends ? each.peer : rank(), number, side);
    };
    Transaction alone;
    alone.label = transaction.label;
    alone.sequence = transaction.sequence;
    alone.group = {each};
    std::vector<std::byte> outline(outline_bytes(1));
    write_outline(alone, outline);
    in_time(transaction, [&] {
      store.set_for(1, key(sends ? "sent" : "received"),
                    {reinterpret_cast<char const*>(outline.data()), outline.size()});
      return true;
    });
    sides.push_back({key(sends ? "received" : "sent"), &each});
  }
  for (auto const& side : sides) {
    auto const text = in_time(transaction, [&] { return store.get(side.theirs, transaction.timeout); });
    check_message(transaction, *side.message,
                  read_outline({reinterpret_cast<std::byte const*>(text.data()), text.size()}));
  }
}

void NcclCommunicator::check_message(Transaction const& transaction, Collective const& mine, Transaction const& other) {
  if (same_message(mine, other.group[0])) {
    return;
  }
  auto const difference =
      message_difference(name(), {describe_rank(*link_, rank()), transaction.sequence, transaction.label, mine},
                         {describe_rank(*link_, mine.peer), other.sequence, other.label, other.group[0]});
  fail(difference);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

namespace {

/// A window of NCCL. A null one is NCCL's way to say that this machine gains nothing from it.
class Window final : public Registration {
 public:
  Window(std::shared_ptr<NcclLink> link, ncclWindow_t window, milliseconds timeout)
      : link_{std::move(link)}, window_{window}, timeout_{timeout} {}
  ~Window() override { link_->forget(window_, Clock::now() + timeout_); }

 private:
  std::shared_ptr<NcclLink> link_;
  ncclWindow_t window_;
  milliseconds timeout_;
};

}  // namespace

/// Collective in NCCL, so ranks that come apart are told by the deadline.
std::unique_ptr<Registration> NcclCommunicator::do_register(device::Memory const& memory) {
  if (auto const reason = session_->failure()) {
    throw PeerError{*reason};
  }
  drain();
  ncclWindow_t window = nullptr;
  try {
    window = link_->make_window(memory.data(), memory.bytes(), Clock::now() + options_.timeout);
  } catch (...) {
    session_->fail(fmt::format("rank {} could not register memory with '{}' (NCCL_WIN_ENABLE=0 does without): {}",
                               session_->rank(), name(), describe_current_exception().bare));
    throw;
  }
  return window == nullptr ? nullptr : std::make_unique<Window>(link_, window, time_at_the_end());
}

// ---- splitting ------------------------------------------------------------------------------------------------------

/// NCCL splits communicators on which nothing is on its way.
void NcclCommunicator::drain() {
  auto const deadline = Clock::now() + options_.timeout;
  while (!link_->flights.empty()) {
    if (auto const reason = session_->failure()) {
      throw PeerError{*reason};
    }
    if (Clock::now() >= deadline) {
      fail(fmt::format("{} waited {} with a split of communicator '{}' for {}", describe_rank(*link_, rank()),
                       describe(options_.timeout), name(), link_->flights.describe_first()));
    }
    std::this_thread::sleep_for(milliseconds{1});
  }
}

std::unique_ptr<Communicator> NcclCommunicator::do_split(int color, int key, std::string const& name) {
  if (auto const reason = session_->failure()) {
    throw PeerError{*reason};
  }
  drain();
  Transaction& transaction = take({split_purpose, {}}, {});  // names may differ: parts have their own
  transaction.sequence = ++sequence_;
  link_->submitted.store(transaction.position, std::memory_order_release);
  Finally const give_back{[&] { link_->flights.give_back(transaction); }};
  auto const wish = [](int number) { return static_cast<std::uint64_t>(static_cast<std::uint32_t>(number)); };
  auto const all = agree(transaction, Body{}.number(wish(color)).number(wish(key)).take());
  NcclLink::Identity identity;
  identity.id = mix(mix(link_->identity.id, ++splits_), wish(color));
  identity.traits = {name, options_.copy_engine};
  std::vector<std::pair<int, int>> members;  // key, rank here
  for (int each = 0; each < world(); ++each) {
    BodyReader reader{all[static_cast<std::size_t>(each)]};
    int const its_color = static_cast<int>(static_cast<std::uint32_t>(reader.number()));
    int const its_key = static_cast<int>(static_cast<std::uint32_t>(reader.number()));
    if (its_color == color) {
      members.emplace_back(its_key, each);
    }
  }
  std::sort(members.begin(), members.end());
  for (auto const& [its_key, each] : members) {
    identity.rank = each == rank() ? static_cast<int>(identity.job_ranks.size()) : identity.rank;
    identity.job_ranks.push_back(link_->identity.job_ranks[static_cast<std::size_t>(each)]);
  }
  auto const deadline = Clock::now() + options_.timeout;
  try {
    if (color < 0) {
      link_->split_off(deadline);
      return nullptr;
    }
    auto const part = make_link(*session_, std::move(identity));
    part->start_from(*link_, color, key, deadline);
    return std::make_unique<NcclCommunicator>(session_, part, options_);
  } catch (...) {
    session_->fail(fmt::format("rank {} could not split '{}' off '{}': {}", session_->rank(), name, this->name(),
                               describe_current_exception().bare));
    throw;
  }
}

}  // namespace zeroth::comm
