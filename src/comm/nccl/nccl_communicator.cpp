// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "comm/describe.hpp"
#include "comm/finally.hpp"
#include "comm/nccl/nccl_operations.hpp"
#include "comm/nccl/nccl_window.hpp"
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

constexpr milliseconds longest_time_at_the_end{30'000};

std::shared_ptr<NcclLink> make_link(NcclSession& session, NcclLink::Identity identity) {
  return std::make_shared<NcclLink>(std::move(identity), session.recorder(), [&session] { return session.failure(); });
}

std::string in_words(Label const& label, std::span<Collective const> collectives, NcclLink const& link) {
  return collectives.empty() ? purpose_and_unit(label.purpose, {})
                             : describe(label, collectives.front(), link.identity.group.job_ranks);
}

ncclUniqueId make_id() {
  ncclUniqueId id;
  if (auto const result = nccl().get_unique_id(&id); result != ncclSuccess) {
    throw SystemError{fmt::format("ncclGetUniqueId: {} ({})", nccl().error_string(result), nccl().last_error(nullptr))};
  }
  return id;
}

/// The link of a group whose ranks are all here. Its first rank makes the id, which travels by the store.
std::shared_ptr<NcclLink> start_link(NcclSession& session, NcclLink::Identity identity, milliseconds timeout) {
  auto const link = make_link(session, std::move(identity));
  auto const& group = link->identity.group;
  try {
    auto const bytes = session.rendezvous().share(
        fmt::format("nccl {} {:016x}", group.name, group.id), group.job_ranks.front(),
        [] {
          auto const fresh = make_id();
          return std::string{fresh.internal, sizeof fresh.internal};
        },
        timeout);
    ncclUniqueId id;
    ZEROTH_EXPECTS(bytes.size() == sizeof id.internal, fmt::format("an NCCL id of {} bytes", bytes.size()));
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    link->start(id, Clock::now() + timeout);
  } catch (...) {
    session.fail(fmt::format("rank {} could not make communicator '{}': {}", session.rank(), group.name,
                             describe_current_exception().bare));
    throw;
  }
  return link;
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(std::shared_ptr<NcclSession> session, CommOptions const& options) {
  check(options);
  auto const link =
      start_link(*session, {whole_job(0, session->rank(), session->world()), session->gpu(), false}, options.timeout);
  return std::make_unique<NcclCommunicator>(std::move(session), link, options);
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclSession> session, std::shared_ptr<NcclLink> link,
                                   CommOptions const& options)
    : session_{std::move(session)},
      link_{std::move(link)},
      options_{options},
      agreement_{*session_, *link_},
      barrier_word_{session_->barrier_word()} {
  session_->watch().enter(link_);
}

/// Work in flight ends if the other ranks come. If an exception unwinds this rank, it informs them instead.
NcclCommunicator::~NcclCommunicator() {
  auto const first =
      std::uncaught_exceptions() > exceptions_at_birth_ ? link_->pending.describe_first() : std::string{};
  if (!first.empty()) {
    session_->fail(fmt::format("rank {} was ended by an exception, with {} of communicator '{}' on its way",
                               session_->rank(), first, name()));
  }
  auto const deadline = Clock::now() + time_at_the_end();
  while (!link_->pending.empty() && !session_->failed() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds{1});
  }
  if (auto const left = link_->pending.describe_first(); !left.empty() && !session_->failed()) {
    session_->fail(fmt::format("rank {} ended communicator '{}', and {} was still on its way {} later",
                               session_->rank(), name(), left, describe(time_at_the_end())));
  }
  if (auto const reason = session_->failure()) {  // the watch may not have reached this one
    link_->pending.fail(std::make_exception_ptr(PeerError{*reason}));
  }
  session_->watch().leave(*link_);
  session_->memberships().remove(link_->identity.group.id);
  link_->finish(deadline);
}

void NcclCommunicator::set_options(CommOptions const& options) {
  check(options);
  options_ = options;
}

milliseconds NcclCommunicator::time_at_the_end() const noexcept {
  return std::min(options_.timeout, longest_time_at_the_end);
}

// ---- submitting -----------------------------------------------------------------------------------------------------

/// The error of a transaction that is submitted after the job's end.
std::exception_ptr NcclCommunicator::ended_before(Label const& label, std::span<Collective const> collectives) const {
  return std::make_exception_ptr(
      PeerError{fmt::format("{}; {} was about to enter {} on communicator '{}'", session_->failure().value_or(""),
                            describe_this_rank(), in_words(label, collectives, *link_), name())});
}

void NcclCommunicator::do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) {
  auto* const gpu = dynamic_cast<device::PeerStream*>(&stream);
  if (session_->failed() && gpu != nullptr) {
    return gpu->fail(ended_before(label, collectives));
  }
  if (session_->failed()) {  // reports it on a stream of any kind
    return device::as_cpu(stream).post([session = session_.get()] { throw PeerError{*session->failure()}; });
  }
  ZEROTH_EXPECTS(
      gpu != nullptr,
      fmt::format("communicator '{}' is NCCL's and needs a GPU stream, but was given a host stream", name()));
  ZEROTH_EXPECTS(gpu->native().native != cudaStreamPerThread,
                 fmt::format("communicator '{}' is NCCL's, which launches from its own threads, but was given "
                             "cudaStreamPerThread, which is a different stream in each thread; compute on a stream "
                             "that the program created, or on the default stream (null)",
                             name()));
  if (gpu->failed()) {
    return;
  }
  auto* const native = static_cast<cudaStream_t>(gpu->native().native);
  Transaction& transaction = take(label, collectives);
  try {
    if (gpu->captures()) {
      return capture(transaction, native);
    }
    for (auto const& each : collectives) {
      transaction.records.push_back(recorder().enqueue(make_record(name(), transaction.sequence, label, each)));
    }
    prepare(transaction);
    launch(transaction, gpu->failure(), native);
  } catch (...) {
    if (session_->failed()) {  // all ranks know it
      return gpu->fail(ended_before(label, collectives));
    }
    gpu->fail(std::current_exception());
    session_->fail(fmt::format("rank {} failed in {} on communicator '{}': {}", session_->rank(),
                               in_words(label, collectives, *link_), name(), describe_current_exception().bare));
  }
}

Transaction& NcclCommunicator::take(Label const& label, std::span<Collective const> collectives) {
  Transaction& transaction = link_->pending.take(label, collectives, options_.timeout);
  transaction.sequence = ++sequence_;
  // Before any wait for others: a status query in the meantime must see that this rank has arrived.
  link_->submitted.store(transaction.position, std::memory_order_release);
  return transaction;
}

/// Nothing runs yet: launches are watched by do_watch_graphs().
void NcclCommunicator::capture(Transaction& transaction, cudaStream_t stream) {
  Finally const recycle{[&] { link_->pending.recycle(transaction); }};
  ZEROTH_EXPECTS(!options_.check, fmt::format("communicator '{}' compares transactions between ranks on the host "
                                              "(CommOptions::check), which a graph cannot do",
                                              name()));
  issue(transaction, stream, Clock::now() + transaction.timeout);
}

void NcclCommunicator::do_watch_graphs(device::Stream& stream, Label const& label,
                                       std::function<void()> const& launch) {
  auto* const gpu = dynamic_cast<device::PeerStream*>(&stream);
  if (gpu == nullptr || gpu->failed()) {
    return launch();  // throws the error of a failed device
  }
  if (session_->failed()) {
    return gpu->fail(ended_before(label, {}));
  }
  auto* const native = static_cast<cudaStream_t>(gpu->native().native);
  Collective const barrier{};  // all ranks launch the same
  Transaction& transaction = take(label, {&barrier, 1});
  transaction.records.push_back(recorder().enqueue(make_record(name(), transaction.sequence, label, barrier)));
  auto& work = link_->pending.begin(transaction, gpu->failure(), native);
  try {
    launch();
  } catch (...) {
    link_->pending.cancel(work);
    throw;
  }
  link_->pending.launched(work, native);
}

/// Recycles the transaction if it is not to be launched.
void NcclCommunicator::prepare(Transaction& transaction) {
  if (!options_.check) {
    return;
  }
  try {
    agreement_.agree(transaction);
    agreement_.compare_messages(transaction);
  } catch (...) {
    link_->pending.recycle(transaction);
    throw;
  }
}

/// The first transaction of a kind waits on the host for the other ranks: NCCL connects them on first use.
void NcclCommunicator::launch(Transaction& transaction, std::shared_ptr<device::Failure> failure, cudaStream_t stream) {
  auto const begun = Clock::now();
  auto const deadline = begun + transaction.timeout;
  auto& work = link_->pending.begin(transaction, std::move(failure), stream);
  try {
    issue(transaction, stream, deadline);
  } catch (PeerError const& error) {
    auto const late = session_->failed()
                          ? std::string{}
                          : fmt::format("{} ({})", session_->explain_late(*link_, transaction, begun), error.what());
    link_->pending.cancel(work);
    if (late.empty()) {
      throw;
    }
    session_->fail_and_throw(late);
  } catch (...) {
    link_->pending.cancel(work);
    throw;
  }
  link_->pending.launched(work, stream);
  if (session_->failed()) {  // the watch may have failed all work in flight before this was enqueued
    throw PeerError{"the job failed"};
  }
}

void NcclCommunicator::issue(Transaction& transaction, cudaStream_t stream, Clock::time_point deadline) {
  for (auto const part : {NcclPart::native, NcclPart::built, NcclPart::messages}) {
    if (has_part(transaction, part)) {
      link_->call("ncclGroupEnd", deadline, [&](ncclComm_t handle) {
        return issue_part({handle, stream, rank(), world(), barrier_word_}, transaction, part);
      });
    }
  }
}

// ---- memory ---------------------------------------------------------------------------------------------------------

/// Collective in NCCL; ranks that do not come are reported at the deadline.
std::unique_ptr<Registration> NcclCommunicator::do_register(device::Memory const& memory) {
  if (auto const reason = session_->failure()) {
    throw PeerError{*reason};
  }
  drain();
  ncclWindow_t window = nullptr;
  try {
    window = link_->make_window(memory.data(), memory.bytes(), Clock::now() + options_.timeout);
  } catch (...) {
    session_->fail(
        fmt::format("rank {} could not register memory with '{}' (set NCCL_WIN_ENABLE=0, or zeroth.register_memory to "
                    "false, to do without): {}",
                    session_->rank(), name(), describe_current_exception().bare));
    throw;
  }
  return window == nullptr ? nullptr : std::make_unique<NcclWindow>(link_, window, time_at_the_end());
}

// ---- splitting ------------------------------------------------------------------------------------------------------

/// NCCL only splits idle communicators.
void NcclCommunicator::drain() {
  auto const deadline = Clock::now() + options_.timeout;
  while (!link_->pending.empty()) {
    if (auto const reason = session_->failure()) {
      throw PeerError{*reason};
    }
    if (Clock::now() >= deadline) {
      session_->fail_and_throw(fmt::format("{} waited {} with a split of communicator '{}' for {}",
                                           describe_this_rank(), describe(options_.timeout), name(),
                                           link_->pending.describe_first()));
    }
    std::this_thread::sleep_for(milliseconds{1});
  }
}

std::unique_ptr<Communicator> NcclCommunicator::do_split(int color, int key, std::string const& name) {
  if (auto const reason = session_->failure()) {
    throw PeerError{*reason};
  }
  drain();
  Transaction& transaction = link_->pending.take({split_purpose, {}}, {}, options_.timeout);
  transaction.sequence = ++sequence_;
  link_->submitted.store(transaction.position, std::memory_order_release);
  Finally const recycle{[&] { link_->pending.recycle(transaction); }};
  auto const requests = agreement_.agree_to_split(transaction, {color, key});  // names may differ between parts
  NcclLink::Identity identity{part_of(link_->identity.group, ++splits_, requests, name), session_->gpu(),
                              options_.copy_engine};
  auto const deadline = Clock::now() + options_.timeout;
  try {
    if (color < 0) {
      link_->split_off(deadline);
      return nullptr;
    }
    session_->memberships().add(link_->identity.group, requests, identity.group);
    auto const part = make_link(*session_, std::move(identity));
    part->start_from(*link_, color, key, deadline);
    return std::make_unique<NcclCommunicator>(session_, part, options_);
  } catch (...) {
    session_->fail(fmt::format("rank {} could not split '{}' off '{}': {}", session_->rank(), name, this->name(),
                               describe_current_exception().bare));
    throw;
  }
}

std::unique_ptr<Communicator> NcclCommunicator::do_create_group(std::uint64_t id, std::span<int const> ranks,
                                                                std::string const& name) {
  auto const& whole = link_->identity.group;
  auto part = group_of(whole, id, ranks, name);
  session_->memberships().add(whole, requests_for(whole, ranks), part);
  auto const link = start_link(*session_, {std::move(part), session_->gpu(), options_.copy_engine}, options_.timeout);
  return std::make_unique<NcclCommunicator>(session_, link, options_);
}

}  // namespace zeroth::comm
