// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/tcp_session.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "comm/describe.hpp"
#include "comm/rank_error.hpp"
#include "comm/store/frame.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;

/// The listener of this rank, and the address by which others reach it. An empty address stands for the one by which
/// they reach rank 0, on whose machine this rank is.
struct Place {
  Descriptor listener;
  std::string host;
};

Place listen(TcpOptions const& options, std::string const& interface_address, Store& store) {
  int error = 0;
  Place place;
  if (!interface_address.empty()) {
    place = {listen_on(interface_address, 0, error), interface_address};
  } else {
    auto const& host = options.rendezvous.at.host;
    auto const& here = store.ends().here;
    place = {listen_at(host, 0, error), is_loopback(here) ? std::string{} : here};
  }
  if (!place.listener) {
    throw SystemError{"cannot listen on a port for the other ranks: " + error_text(error)};
  }
  return place;
}

/// Makes an empty file that others can try to open. Returns the error, or an empty string.
std::string try_to_share(Descriptor& sample, SharedFile& file) {
  try {
    sample = make_shared_file("zeroth sample", 0);
    file = describe_file(sample.get());
    return {};
  } catch (SystemError const&) {
    return describe_current_exception().bare;
  }
}

}  // namespace

TcpSession::TcpSession(TcpOptions options)
    : rank_{options.rendezvous.rank},
      world_{options.rendezvous.world},
      recorder_{std::make_shared<FlightRecorder>(rank_, world_)} {
  options.rendezvous.on_failure = [this](JobFailure const& failure) { end_all_use(failure); };
  options.rendezvous.groups_of = [this](int rank) { return memberships().describe(rank); };
  std::string interface_address;
  if (!options.interface.empty() && options.rendezvous.problem.empty()) {
    try {
      interface_address = address_of_interface(options.interface);
    } catch (...) {
      options.rendezvous.problem = "ZEROTH_INTERFACE in the environment: " + describe_current_exception().bare;
    }
  }
  rendezvous_.emplace(options.rendezvous);
  try {
    auto place = listen(options, interface_address, rendezvous_->store());
    ranks_.resize(static_cast<std::size_t>(world_));
    auto& mine = ranks_[static_cast<std::size_t>(rank_)];
    mine.at = {place.host, port_of(place.listener)};
    Descriptor sample;
    std::string problem{"as requested"};
    if (options.within_machine == WithinMachine::memory) {
      problem = try_to_share(sample, mine.file);
    }
    meet(options);
    choose_ways(options, problem);
    std::vector<Endpoint> ends;
    for (int rank = 0; rank < world_; ++rank) {
      auto const& at = ranks_[static_cast<std::size_t>(rank)].at;
      ends.push_back(options.detour ? options.detour(rank, at) : at);
    }
    links_ = std::make_unique<TcpLinks>(
        Acceptor::Options{std::move(place.listener), options.rendezvous.at.token, rank_, world_}, ends,
        rendezvous_->store().heartbeat_timeout(),
        TcpLinks::Handlers{
            [this](int from, WireHead const& head, std::string const& words) { receive(from, head, words); },
            [this](int rank, std::string const& why) {
              fail(rank_, fmt::format("rank {} lost rank {}{}: {}", rank_, rank, memberships().describe(rank), why));
            }});
    std::scoped_lock const lock{mutex_};
    linked_ = links_.get();
    if (failure_) {
      linked_->halt();
    }
  } catch (...) {  // before the store's destructor reports less
    rendezvous_->store().abort(fmt::format("rank {} failed: {}", rank_, describe_current_exception().bare));
    throw;
  }
}

TcpSession::~TcpSession() {
  {
    std::scoped_lock const lock{mutex_};
    linked_ = nullptr;  // the store's thread may still report a failure
  }
  links_.reset();
}

// ---- status of ranks ------------------------------------------------------------------------------------------------

void TcpSession::meet(TcpOptions const& options) {
  auto const& mine = ranks_[static_cast<std::size_t>(rank_)];
  auto const all = rendezvous_->store().gather("tcp ranks",
                                               Body{}
                                                   .text(mine.at.host)
                                                   .number(static_cast<std::uint64_t>(mine.at.port))
                                                   .text(memory_domain())
                                                   .text(encode(mine.file))
                                                   .take(),
                                               options.rendezvous.join_timeout);
  auto const& host = options.rendezvous.at.host;
  std::string const where_rank0_is = rank_ != 0          ? rendezvous_->store().ends().there
                                     : is_loopback(host) ? host
                                                         : "127.0.0.1";
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    BodyReader reader{all[rank]};
    auto& each = ranks_[rank];
    each.at.host = reader.text(most_value_bytes);
    each.at.port = static_cast<int>(reader.number(1, 65535));
    each.domain = reader.text(most_value_bytes);
    each.file = decode_shared_file(reader.text(most_value_bytes));
    if (each.at.host.empty()) {
      each.at.host = where_rank0_is;
    }
  }
}

/// Empty if this rank can open what all other ranks on its machine share.
std::string TcpSession::why_not_shared() const {
  for (int rank = 0; rank < world_; ++rank) {
    auto const& each = ranks_[static_cast<std::size_t>(rank)];
    if (rank == rank_ || each.domain != ranks_[static_cast<std::size_t>(rank_)].domain || each.file.descriptor < 0) {
      continue;  // a rank with nothing to share reports that itself
    }
    try {
      static_cast<void>(open_shared(each.file, 0, O_RDONLY));
    } catch (SystemError const&) {
      return fmt::format("rank {} cannot map memory of rank {} on its machine: {}", rank_, rank,
                         describe_current_exception().bare);
    }
  }
  return {};
}

/// All ranks reach the same decision, and keep their shared files open until all have tried.
void TcpSession::choose_ways(TcpOptions const& options, std::string problem) {
  bool const wanted = options.within_machine == WithinMachine::memory;
  problem = problem.empty() ? why_not_shared() : problem;
  auto const verdicts =
      rendezvous_->store().gather("tcp memory", problem.substr(0, most_value_bytes), options.rendezvous.join_timeout);
  std::set<std::string> machines;
  std::string why;
  for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
    ranks_[rank].shares_memory = verdicts[rank].empty();
    machines.insert(ranks_[rank].domain);
    why = why.empty() ? verdicts[rank] : why;
  }
  if (rank_ == 0) {
    bool const bad = !why.empty() && wanted;
    logger().log(bad ? spdlog::level::warn : spdlog::level::info,
                 "{} ranks over tcp on {} machine{}; within a machine {}", world_, machines.size(),
                 machines.size() == 1 ? "" : "s",
                 why.empty() ? "registered memory is read in place, and everything else goes over the network"
                             : fmt::format("over the network too: {}", why));
  }
}

int TcpSession::local_rank() const noexcept {
  auto const& mine = ranks_[static_cast<std::size_t>(rank_)].domain;
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.begin() + rank_,
                                        [&](Neighbour const& each) { return each.domain == mine; }));
}

std::vector<int> TcpSession::members_here(Group const& group) const {
  auto const& mine = ranks_[static_cast<std::size_t>(rank_)];
  std::vector<int> members;
  for (int rank = 0; rank < group.world(); ++rank) {
    auto const& each = ranks_[static_cast<std::size_t>(group.job_rank(rank))];
    if (rank == group.rank || (each.domain == mine.domain && each.shares_memory && mine.shares_memory)) {
      members.push_back(rank);
    }
  }
  return members;
}

std::size_t TcpSession::ranks_on_machine() const noexcept {
  auto const& mine = ranks_[static_cast<std::size_t>(rank_)];
  return static_cast<std::size_t>(
      std::count_if(ranks_.begin(), ranks_.end(), [&](auto const& each) { return each.domain == mine.domain; }));
}

bool TcpSession::any_share_memory() const noexcept {
  std::set<std::string_view> domains;
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [&](Neighbour const& each) { return each.shares_memory && !domains.insert(each.domain).second; });
}

std::shared_ptr<SharedQueues> TcpSession::share_queues(Group const& group, milliseconds timeout) {
  try {
    return try_to_share_queues(group, timeout);
  } catch (std::exception const& error) {  // so that no rank waits for this one
    fail(rank_, fmt::format("rank {} failed to make communicator '{}': {}", rank_, group.name, error.what()));
    throw;
  }
}

std::shared_ptr<SharedQueues> TcpSession::try_to_share_queues(Group const& group, milliseconds timeout) {
  auto const members = members_here(group);
  auto const count = static_cast<int>(members.size());
  auto const me = static_cast<int>(std::find(members.begin(), members.end(), group.rank) - members.begin());
  auto const key = fmt::format("tcp queues {:016x} {}", group.id, group.job_rank(members.front()));
  auto const queues =
      me == 0 ? std::make_shared<SharedQueues>(count, 0)
              : std::make_shared<SharedQueues>(decode_shared_file(rendezvous_->store().get(key, timeout)), count, me);
  {
    std::scoped_lock const lock{mutex_};
    std::erase_if(queues_, [](auto const& each) { return each.expired(); });
    queues_.push_back(queues);
    if (failure_) {
      queues->withdraw();
    }
  }
  if (me == 0 && count > 1) {
    rendezvous_->store().set_for(count - 1, key, encode(queues->file()));
    auto const deadline = Clock::now() + timeout;
    while (!queues->all_attached()) {  // until then the file must stay open
      if (auto const failed = failure()) {
        throw PeerError{failed->reason};
      }
      if (Clock::now() >= deadline) {
        throw PeerError{fmt::format("not all ranks of communicator '{}' on this machine joined within {}", group.name,
                                    describe(timeout))};
      }
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
    queues->close_file();
  }
  return queues;
}

// ---- failure --------------------------------------------------------------------------------------------------------

void TcpSession::fail(int origin, std::string const& reason) noexcept {
  rendezvous_->store().abort(reason);
  end_all_use_after(origin, reason);
}

void TcpSession::report_timeout(std::string const& reason, std::vector<PeerStatus> const& places) noexcept {
  try {
    Contacts contacts(static_cast<std::size_t>(world_), Contact::none);
    for (auto const& place : places) {
      contacts[static_cast<std::size_t>(place.rank)] = place.here       ? Contact::here
                                                       : place.answered ? Contact::late
                                                                        : Contact::silent;
    }
    rendezvous_->store().report_timeout({reason, contacts});
  } catch (std::exception const& error) {
    print_error(error.what());
  }
  end_all_use_after(rank_, reason);
}

bool TcpSession::in_timeout_query() const noexcept { return rendezvous_->store().in_timeout_query(); }

/// For a thread that has told the store why the job fails. An earlier failure takes precedence.
void TcpSession::end_all_use_after(int origin, std::string const& reason) noexcept {
  try {
    end_all_use(rendezvous_->store().failure().value_or(JobFailure{origin, reason}));
  } catch (std::exception const& error) {
    print_error(error.what());
  }
}

void TcpSession::end_all_use(JobFailure const& failure) noexcept {
  std::scoped_lock const lock{mutex_};
  for (auto const& each : queues_) {
    if (auto const queues = each.lock()) {
      queues->withdraw();
    }
  }
  if (linked_ != nullptr) {
    linked_->halt();
  }
  try {
    failure_ = failure_.value_or(failure);
  } catch (std::exception const&) {  // without memory for the reason, the job ends anyway
    failure_.emplace().origin = failure.origin;
  }
}

std::optional<JobFailure> TcpSession::failure() const {
  std::scoped_lock const lock{mutex_};
  return failure_;
}

std::uint64_t TcpSession::next_job() {
  links_->expect_end(false);
  return ++job_count_;
}

void TcpSession::await_all() {
  links_->expect_end(true);
  static_cast<void>(rendezvous_->store().gather("tcp end", {}, until_the_job_ends));
}

// ---- messages outside of collectives --------------------------------------------------------------------------------

void TcpSession::leave(std::uint64_t communicator, std::vector<int> const& ranks, std::uint64_t last) {
  peer_statuses_.leave(communicator, ranks.size() - 1);
  links_->forget(communicator);
  for (int const rank : ranks) {
    if (rank != rank_) {
      links_->send(rank, {.kind = WireKind::left, .communicator = communicator, .offset = last});
    }
  }
}

void TcpSession::receive(int from, WireHead const& head, std::string const& words) {
  if (head.kind == WireKind::question) {
    links_->send(from,
                 {.kind = WireKind::answer, .offset = head.offset, .length = peer_statuses_.begun(head.communicator)},
                 describe_last(*recorder_).substr(0, most_whereabouts_bytes));
  } else if (head.kind == WireKind::left) {
    peer_statuses_.note_leaver(head.communicator, {from, head.offset});
  } else {
    peer_statuses_.note_answer(head.offset, {from, true, head.length, words});
  }
}

std::vector<PeerStatus> TcpSession::ask_where(std::uint64_t communicator, std::vector<int> const& ranks) {
  rendezvous_->store().begin_timeout_query();
  return ask(communicator, ranks, patience_for_whereabouts);
}

std::vector<PeerStatus> TcpSession::ask(std::uint64_t communicator, std::vector<int> const& ranks,
                                        milliseconds patience) {
  return peer_statuses_.ask(
      ranks, patience,
      [&](std::uint64_t number) {
        for (int const rank : ranks) {
          links_->send(rank, {.kind = WireKind::question, .communicator = communicator, .offset = number});
        }
      },
      [this] { return failure().has_value(); });
}

std::string TcpSession::describe_silent() {
  constexpr std::uint64_t no_communicator = 0;
  auto const places = ask(no_communicator, all_others(rank_, world_), patience_for_silence);
  return failure() ? std::string{} : describe_silence(places, memberships());
}

}  // namespace zeroth::comm
