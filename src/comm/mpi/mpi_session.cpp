// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "comm/describe.hpp"
#include "comm/mpi/mpi_call.hpp"
#include "comm/spinning.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;
using MessageKind = ControlMessage::Kind;

constexpr milliseconds patience_for_notes{500};  // a frozen rank does not acknowledge
constexpr milliseconds patience_for_halt{2000};  // the MPI thread itself may be stuck in a blocking call

std::string_view name_of_level(int level) noexcept {
  return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
         : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
         : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                          : "MPI_THREAD_MULTIPLE";
}

MPI_Comm duplicate(MPI_Comm communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  ZEROTH_MPI(MPI_Comm_dup(communicator, &copy));
  ZEROTH_MPI(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  return copy;
}

int rank_on_this_machine(MPI_Comm communicator) {
  MPI_Comm machine = MPI_COMM_NULL;
  int rank = 0;
  ZEROTH_MPI(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
  ZEROTH_MPI(MPI_Comm_rank(machine, &rank));
  ZEROTH_MPI(MPI_Comm_free(&machine));
  return rank;
}

/// As Open MPI's launcher says, before MPI starts; 1 without it.
int open_mpi_ranks_on_machine() {
  char const* const text = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

std::atomic<bool> started{false};

/// Returns true if this call initialised MPI, not the program.
bool begin_mpi() {
  int finalised = 0;
  int initialised = 0;
  int level = 0;
  ZEROTH_MPI(MPI_Finalized(&finalised));
  if (finalised != 0) {
    throw SystemError{
        "MPI was finalised in this process and cannot be started again: run all jobs before MPI_Finalize"};
  }
  ZEROTH_MPI(MPI_Initialized(&initialised));
  if (initialised != 0) {
    ZEROTH_MPI(MPI_Query_thread(&level));
    if (level < MPI_THREAD_MULTIPLE) {
      throw SystemError{
          fmt::format("the program initialised MPI with {}; communication runs on a thread of its own and "
                      "needs MPI_THREAD_MULTIPLE: ask MPI_Init_thread for it, or leave MPI alone",
                      name_of_level(level))};
    }
    return false;
  }
  // Whether Open MPI's calls give up the core when a poll finds nothing. With more ranks than cores, the rank that is
  // waited for needs that core: 4 ranks on 2 cores train 1.4 times as fast. With a core for each rank, giving it up
  // only delays: 2 ranks on 2 cores take 1.3 times as long. Our own thread sleeps between its polls in both cases.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", may_spin(open_mpi_ranks_on_machine()) ? "0" : "1", 0);
  ZEROTH_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level));
  if (level < MPI_THREAD_FUNNELED) {
    throw SystemError{fmt::format("this MPI provides {}; MPI_THREAD_FUNNELED is needed", name_of_level(level))};
  }
  ZEROTH_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));  // for calls without a communicator
  return true;
}

}  // namespace

std::shared_ptr<MpiSession> MpiSession::open() {
  // Keeps the session until the process ends. If it is still in use then, the program left in the middle of a job: it
  // must not wait for the others in MPI_Finalize, and mpirun ends them.
  struct Keeper {
    std::mutex mutex;
    std::weak_ptr<MpiSession> current;
    std::shared_ptr<MpiSession> kept;
    ~Keeper() {
      if (kept && kept.use_count() > 1) {
        kept->thread_->post([thread = kept->thread_.get()] { thread->halt(); });
      }
    }
  };
  static Keeper keeper;
  std::lock_guard const lock{keeper.mutex};
  auto session = keeper.current.lock();
  if (!session) {
    session.reset(new MpiSession);
    keeper.current = session;
    if (session->initialised_here_) {
      keeper.kept = session;
    }
  }
  if (auto const failure = session->failure()) {
    throw SystemError{fmt::format("an earlier job of this process failed ({}): start a new process", failure->reason)};
  }
  return session;
}

char const* MpiSession::starting_call() noexcept { return started.load() ? "MPI_Comm_dup" : "MPI_Init_thread"; }

MpiSession::MpiSession() {
  auto const broken = [this](char const* what) {
    fail(rank_, fmt::format("rank {} failed: {}", rank_, what));
    thread_->halt();
  };
  thread_ = std::make_unique<MpiThread>([this] { return service(); }, broken);
  thread_->run([this] { initialise(); });
}

MpiSession::~MpiSession() {
  try {
    thread_->run([this] { finalise(); });
  } catch (std::exception const& error) {
    print_error(error.what());
  }
}

void MpiSession::initialise() {
  initialised_here_ = begin_mpi();
  started.store(true);
  communicator_ = duplicate(MPI_COMM_WORLD);
  ZEROTH_MPI(MPI_Comm_rank(communicator_, &rank_));
  ZEROTH_MPI(MPI_Comm_size(communicator_, &world_));
  local_rank_ = rank_on_this_machine(communicator_);
  recorder_ = std::make_shared<FlightRecorder>(rank_, world_);
  control_.emplace(duplicate(MPI_COMM_WORLD));
  key_values_.emplace(rank_,
                      MpiKeyValues::Ways{*thread_, [this](int to, ControlMessage const& message) { send(to, message); },
                                         [this] { return failure(); }});
  this_rank() = {rank_, world_, {}};
}

void MpiSession::finalise() {
  if (!control_ || thread_->halted()) {
    return;  // others may not come
  }
  control_->close();
  control_.reset();
  ZEROTH_MPI(MPI_Comm_free(&communicator_));
  if (initialised_here_) {
    ZEROTH_MPI(MPI_Finalize());
  }
}

// ---- failure --------------------------------------------------------------------------------------------------------

void MpiSession::fail(int origin, std::string const& reason) noexcept {
  try {
    {
      std::lock_guard const lock{mutex_};
      if (!failure_) {
        failure_ = JobFailure{origin, reason};
      }
    }
    if (MpiThread::is_current()) {
      announce();
      return;
    }
    thread_->post([this] { announce(); });
  } catch (std::exception const& error) {
    print_error(error.what());
  }
  (void)thread_->wait_until_halted(Clock::now() + patience_for_halt);
}

std::optional<JobFailure> MpiSession::failure() const {
  if (!thread_->halted()) {
    return std::nullopt;
  }
  std::lock_guard const lock{mutex_};
  return failure_;
}

void MpiSession::announce() {
  if (announced_ || told_ || !control_) {
    return;
  }
  announced_ = true;
  halt_at_ = Clock::now() + patience_for_notes;
  ControlMessage message{.kind = MessageKind::failure};
  {
    std::lock_guard const lock{mutex_};
    message.peer = failure_->origin;
    message.set_text(failure_->reason);
  }
  for (int rank = 0; rank < world_; ++rank) {
    if (rank != rank_) {
      send(rank, message);
    }
  }
}

void MpiSession::abort_job(int status) noexcept {
  Counter never;
  try {
    thread_->post([status] { MPI_Abort(MPI_COMM_WORLD, status); });
  } catch (std::exception const&) {  // then only this process ends at once, and the launcher ends the others
  }
  (void)never.wait_until(1, Clock::now() + patience_for_halt);
  std::_Exit(status);
}

// ---- the MPI thread's rounds ----------------------------------------------------------------------------------------

bool MpiSession::service() {
  if (!control_) {
    return false;
  }
  bool moved = false;
  while (auto const message = control_->receive()) {
    handle(*message);
    moved = true;
  }
  moved = key_values_->expire() || moved;
  bool const all_sent = control_->all_sent();
  bool const all_noted = announced_ ? noted_count_ == world_ - 1 : told_;
  if ((all_noted && all_sent) || Clock::now() >= halt_at_) {
    thread_->halt();
  }
  return moved;
}

void MpiSession::handle(ControlMessage const& message) {
  switch (message.kind) {
    case MessageKind::failure: {
      {
        std::lock_guard const lock{mutex_};
        if (!failure_) {
          failure_ = JobFailure{message.peer, message.text.data()};
        }
      }
      told_ = true;
      halt_at_ = std::min(halt_at_, Clock::now() + patience_for_notes);
      send(message.sender, {.kind = MessageKind::noted});
      return;
    }
    case MessageKind::noted: ++noted_count_; return;
    case MessageKind::question: answer(message); return;
    case MessageKind::answer:
      return peer_statuses_.note_answer(message.number, {message.sender, true, message.sequence, message.text.data()});
    case MessageKind::key_value:
    case MessageKind::key_value_answer: return key_values_->take(message);
    case MessageKind::left: return peer_statuses_.note_leaver(message.communicator, {message.sender, message.sequence});
  }
}

void MpiSession::answer(ControlMessage const& question) {
  ControlMessage reply{
      .kind = MessageKind::answer, .number = question.number, .sequence = peer_statuses_.begun(question.communicator)};
  reply.set_text(describe_last(*recorder_));
  send(question.sender, reply);
}

// ---- status of ranks ------------------------------------------------------------------------------------------------

void MpiSession::leave(std::uint64_t communicator, std::vector<int> const& ranks, std::uint64_t last) {
  peer_statuses_.leave(communicator, ranks.size() - 1);
  thread_->post([this, ranks,
                 message = ControlMessage{.kind = MessageKind::left, .communicator = communicator, .sequence = last}] {
    for (int const rank : ranks) {
      if (rank != rank_ && !thread_->halted()) {
        send(rank, message);
      }
    }
  });
}

std::vector<PeerStatus> MpiSession::ask_where(std::uint64_t communicator, std::vector<int> const& ranks) {
  return ask(communicator, ranks, patience_for_whereabouts);
}

std::vector<PeerStatus> MpiSession::ask(std::uint64_t communicator, std::vector<int> const& ranks,
                                        milliseconds patience) {
  auto const send_to_all = [&](std::uint64_t number) {
    thread_->post(
        [this, ranks,
         message = ControlMessage{.kind = MessageKind::question, .number = number, .communicator = communicator}] {
          for (int const rank : ranks) {
            if (!thread_->halted()) {
              send(rank, message);
            }
          }
        });
  };
  return peer_statuses_.ask(ranks, patience, send_to_all, [this] { return thread_->halted(); });
}

std::string MpiSession::describe_silent() {
  auto const asked = std::make_shared<Counter>();  // 0 if MPI blocks its thread, which then could not ask
  thread_->post([asked] { asked->add(); });
  constexpr std::uint64_t no_communicator = 0;
  auto const places = ask(no_communicator, all_others(rank_, world_), patience_for_silence);
  return asked->value() == 0 || thread_->halted() ? std::string{} : describe_silence(places, memberships());
}

}  // namespace zeroth::comm
