// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_session.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "comm/describe.hpp"
#include "comm/nccl/nccl_call.hpp"
#include "comm/rank_error.hpp"
#include "comm/store/frame.hpp"
#include "core/logger.hpp"
#include "core/start_thread.hpp"
#include "device/cuda_call.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds patience_for_their_answers{3000};
constexpr std::size_t barrier_word_count = 256;
constexpr std::size_t most_links_told = 64;
constexpr std::size_t most_words_bytes = 2048;

std::string question_for(int rank) { return fmt::format("nccl where {}?", rank); }
std::string answer_of(int rank) { return fmt::format("nccl where {}!", rank); }

constexpr char const* launch_order = "NCCL_LAUNCH_ORDER_IMPLICIT";

/// Kernels of two communicators may wait for each other's multiprocessors. With this variable NCCL keeps them in the
/// order in which this rank's thread issues them, which is the same on all ranks. Returns true if the variable was not
/// set before.
bool ask_for_launch_order() {
  static std::mutex one_at_a_time;
  std::lock_guard const lock{one_at_a_time};
  char const* const value = std::getenv(launch_order);
  if (value == nullptr) {
    ::setenv(launch_order, "1", 0);
    return true;
  }
  if (value != std::string_view{"1"}) {
    logger().warn(
        "{}={} in the environment: collectives of several communicators at a time may hang; unset it, or set "
        "zeroth.single_communicator",
        launch_order, value);
  }
  return false;
}

/// NCCL reads the variable once per process, before its first kernel, and reports neither the value nor whether it has
/// read it. The only evidence is whether NCCL was in the process before this library loaded it.
void warn_of_late_launch_order() {
  logger().warn(
      "libnccl was in this process before {} was set to 1: if it has computed anything by then, collectives of several "
      "communicators at a time may hang; set {}=1 in the environment before the program starts, or "
      "zeroth.single_communicator",
      launch_order, launch_order);
}

/// NCCL prefers the environment to the configuration of a communicator. The environment is not changed here, since the
/// program may have communicators of its own.
void warn_of_overrides() {
  struct Override {
    char const* variable;
    char const* problem;
  };
  constexpr std::array overrides{
      Override{"NCCL_COMM_BLOCKING", "calls of NCCL that wait for a rank which is gone have no deadline"},
      Override{"NCCL_COMM_SPLIT_SHARE_RESOURCES", "gathers and reductions take turns, and end together"},
  };
  for (auto const& [variable, problem] : overrides) {
    char const* const value = std::getenv(variable);
    if (value != nullptr && value == std::string_view{"1"}) {
      logger().warn("{}={} in the environment: {}; unset it", variable, value, problem);
    }
  }
}

RendezvousOptions with_handlers(RendezvousOptions options, AbortState& abort, Memberships const& memberships) {
  options.on_failure = [&abort](JobFailure const& failure) { abort.abort(failure.reason); };
  options.groups_of = [&memberships](int rank) { return memberships.describe(rank); };
  return options;
}

}  // namespace

NcclSession::NcclSession(RendezvousOptions rendezvous, int gpu, std::shared_ptr<FlightRecorder> recorder)
    : rank_{rendezvous.rank}, world_{rendezvous.world}, gpu_{gpu}, recorder_{std::move(recorder)} {
  bool const asked_now = ask_for_launch_order();
  warn_of_overrides();
  if (rendezvous.problem.empty()) {
    try {
      take_gpu();
      if (asked_now && nccl().was_there) {
        warn_of_late_launch_order();
      }
    } catch (...) {
      rendezvous.problem = describe_current_exception().bare;
    }
  }
  rendezvous_.emplace(with_handlers(std::move(rendezvous), abort_, memberships_));
  watch_.emplace(rank_, world_, gpu_,
                 NcclWatch::Hooks{[this] { return failure(); }, [this](std::string const& why) { fail(why); },
                                  [this](NcclLink const& link, NcclPending::Late const& late) {
                                    return explain_late(link, *late.transaction, late.begun);
                                  }});
  answering_ = start_thread("answers to other ranks", [this] { answer(); });
}

void NcclSession::take_gpu() {
  static_cast<void>(nccl());
  if (auto const error = cudaSetDevice(gpu_); error != cudaSuccess) {
    throw SystemError{device::describe_call("cudaSetDevice", gpu_, error)};
  }
  void* words = nullptr;
  if (auto const error = cudaMalloc(&words, barrier_word_count * sizeof(std::int32_t)); error != cudaSuccess) {
    throw SystemError{device::describe_call("cudaMalloc", gpu_, error)};
  }
  barrier_words_.reset(words);
}

NcclSession::~NcclSession() {
  ending_.store(true, std::memory_order_release);
  try {
    rendezvous_->store().set(question_for(rank_), {});  // from this rank itself: wakes the thread
  } catch (std::exception const&) {                     // it was asked before, or the job has ended: it is awake
  }
  answering_.join();
  watch_.reset();
}

void* NcclSession::barrier_word() noexcept {
  return static_cast<std::int32_t*>(barrier_words_.get()) + barrier_words_given_++ % barrier_word_count;
}

// ---- the job's end --------------------------------------------------------------------------------------------------

void NcclSession::fail(std::string const& reason) noexcept {
  auto& store = rendezvous_->store();
  store.abort(reason);
  try {
    auto const first = store.failure();
    abort_.abort(first ? first->reason : reason);
  } catch (...) {
    abort_.abort(reason);
  }
}

void NcclSession::fail_and_throw(std::string const& reason) {
  fail(reason);
  throw PeerError{failure().value_or(reason)};
}

// ---- communication through the store --------------------------------------------------------------------------------

std::vector<std::string> NcclSession::gather(std::string const& name, std::vector<int> const& ranks,
                                             std::string const& value, milliseconds timeout) {
  auto& store = rendezvous_->store();
  if (static_cast<int>(ranks.size()) == world_) {
    auto const all = store.gather("nccl " + name, value, timeout);
    std::vector<std::string> values;
    std::transform(ranks.begin(), ranks.end(), std::back_inserter(values),
                   [&all](int rank) { return all[static_cast<std::size_t>(rank)]; });
    return values;
  }
  auto const deadline = Clock::now() + timeout;
  auto const number = gathers_[name]++;
  auto const key = [&](int rank) { return fmt::format("nccl {} #{} {}", name, number, rank); };
  store.set_for(static_cast<int>(ranks.size()), key(rank_), value);  // all ranks read it, including this one
  std::vector<std::string> values;
  for (int const rank : ranks) {
    auto const left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    values.push_back(store.get(key(rank), std::max(left, milliseconds{0})));
  }
  return values;
}

void NcclSession::await_all() { static_cast<void>(rendezvous_->store().gather("nccl end", {}, until_the_job_ends)); }

std::string NcclSession::describe_whereabouts() const {
  auto links = watch_ ? watch_->links() : std::vector<std::shared_ptr<NcclLink>>{};
  links.resize(std::min(links.size(), most_links_told));
  Body body;
  body.text(describe_last(*recorder_).substr(0, most_words_bytes)).number(links.size());
  for (auto const& link : links) {
    body.number(link->identity.group.id).number(link->submitted.load(std::memory_order_acquire));
  }
  return body.take();
}

/// Runs on a separate thread, so that a rank whose host is busy or frozen in the program's work can answer.
void NcclSession::answer() noexcept {
  ::pthread_setname_np(::pthread_self(), "nccl answers");
  this_rank() = {rank_, world_, {}};
  try {
    auto& store = rendezvous_->store();
    static_cast<void>(store.get(question_for(rank_), until_the_job_ends));
    if (!ending_.load(std::memory_order_acquire)) {
      store.set(answer_of(rank_), describe_whereabouts());
    }
  } catch (std::exception const&) {  // the job has ended
  }
}

std::vector<PeerStatus> NcclSession::ask_where(std::uint64_t communicator, std::vector<int> const& ranks) {
  auto& store = rendezvous_->store();
  auto const deadline = Clock::now() + patience_for_their_answers;
  for (int const rank : ranks) {
    try {
      store.set(question_for(rank), {});
    } catch (ContractError const&) {  // another rank asks as well
    } catch (PeerError const&) {      // the job has ended
    }
  }
  std::vector<PeerStatus> all;
  for (int const rank : ranks) {
    PeerStatus one{.rank = rank, .answered = false, .begun = 0, .words = {}};
    try {
      auto const left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      auto const text = store.get(answer_of(rank), std::max(left, milliseconds{0}));
      BodyReader reader{text};
      one.words = reader.text(most_words_bytes);
      for (auto links = reader.number(); links > 0; --links) {
        auto const id = reader.number();
        auto const submitted = reader.number();
        one.begun = id == communicator ? submitted : one.begun;
      }
      one.answered = true;
    } catch (std::exception const&) {  // it does not answer
    }
    all.push_back(std::move(one));
  }
  return all;
}

// ---- descriptions ---------------------------------------------------------------------------------------------------

std::string NcclSession::explain_late(NcclLink const& link, Transaction const& transaction, Clock::time_point begun) {
  auto const waited = Clock::now() - begun;
  bool const is_message = !transaction.is_of_all();
  auto const& group = link.identity.group;
  std::vector<AwaitedRank> ranks;
  for (auto const& place : ask_where(group.id, awaited_ranks(transaction, is_message, group.rank, group.job_ranks))) {
    bool const here = place.answered && !is_message && place.begun >= transaction.position;
    ranks.push_back({fmt::format("rank {}", place.rank), here, place.answered ? place.words : std::string{no_answer}});
  }
  return describe_missing(group.describe_rank(group.rank), waited, describe_on(link, transaction), ranks,
                          link.has_windows()
                              ? "none: all have submitted it, but NCCL does not finish; memory is registered with "
                                "NCCL: set NCCL_WIN_ENABLE=0, or zeroth.register_memory to false, to do without"
                              : "none: all have submitted it, but NCCL does not finish");
}

std::string describe_on(NcclLink const& link, Transaction const& transaction) {
  return fmt::format("{}, transaction {} of communicator '{}'", describe(transaction), transaction.sequence,
                     link.name());
}

}  // namespace zeroth::comm
