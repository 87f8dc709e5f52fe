// SPDX-License-Identifier: Apache-2.0
/// One communicator of NCCL that never blocks, and whose every wait has an end.
#pragma once
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "comm/nccl/nccl_call.hpp"
#include "comm/nccl/nccl_pending.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// The handle, and what belongs to it. Shared by the communicator, whose thread makes calls, and by the watch, which
/// looks for errors and aborts. NCCL allows one thread at a time inside a communicator: both take turns.
class NcclLink {
 public:
  /// Why the job has failed, once it has: who waits in NCCL asks again and again.
  using JobFailed = std::function<std::optional<std::string>()>;

  struct Identity {
    Group group;
    int gpu = 0;
    /// All-gathers inside one machine by copy engines, without multiprocessors, where NCCL can. The same on all ranks.
    bool copy_engine = false;
  };
  NcclLink(Identity identity, FlightRecorder& recorder, JobFailed failed);
  ~NcclLink();
  NcclLink(NcclLink const&) = delete;
  NcclLink& operator=(NcclLink const&) = delete;

  Identity const identity;
  NcclPending pending;
  /// Transactions of all ranks that this rank has submitted; read by whoever tells others where it is.
  std::atomic<std::uint64_t> submitted{0};

  [[nodiscard]] int world() const noexcept { return identity.group.world(); }
  /// "communicator 'gather'"
  [[nodiscard]] std::string const& name() const noexcept { return identity.group.name; }

  /// Makes the handle from an id that all ranks share. Throws SystemError where NCCL refuses, PeerError at the deadline
  /// or when the job fails; then nothing is left of it.
  void start(ncclUniqueId const& id, Clock::time_point deadline);
  /// The same, out of `parent`, on which nothing may be on its way. A rank without a color calls split_off().
  void start_from(NcclLink& parent, int color, int key, Clock::time_point deadline);
  /// This rank's part in a split that it gets nothing from.
  void split_off(Clock::time_point deadline) { static_cast<void>(split(NCCL_SPLIT_NOCOLOR, 0, deadline)); }

  /// `function(handle)`, alone inside NCCL, and then until NCCL is ready for the next call. Throws as start(), with
  /// `call` in the message.
  template <class F>
  void call(char const* call, Clock::time_point deadline, F const& function) {
    auto const lock = enter(call, deadline);
    check(call, function(handle()));
    // Whatever it said: splits and windows are a success to NCCL 2.28 to 2.30 when they have only begun.
    settle(call, ncclInProgress, handle_, deadline);
  }

  /// A window on `bytes` at `memory`; null where NCCL gains nothing from one. All ranks. Throws as call().
  [[nodiscard]] ncclWindow_t make_window(void* memory, std::int64_t bytes, Clock::time_point deadline);
  /// Is memory registered?
  [[nodiscard]] bool has_windows() const noexcept { return windows_.load(std::memory_order_relaxed) > 0; }
  /// Ends a window of the handle, if that is still there, and no other thread keeps it from this one.
  void forget(ncclWindow_t window, Clock::time_point deadline) noexcept;
  /// What went wrong inside NCCL since; empty if nothing. Passed over while another thread is inside.
  [[nodiscard]] std::string find_error();
  /// Ends what runs on the GPU, and the handle. Waits a while for another thread to come out of NCCL, and for the
  /// abort, then no longer.
  void abort() noexcept;
  /// Ends the handle when nothing is on its way any more; aborts it where that takes longer than `deadline`. Waits
  /// until the ranks of this machine have come as far, as long as the job goes on.
  void finish(Clock::time_point deadline) noexcept;

 private:
  [[nodiscard]] ncclConfig_t config() const;
  /// Not where NCCL would hang.
  [[nodiscard]] bool uses_copy_engine() const;
  [[nodiscard]] ncclComm_t split(int color, int key, Clock::time_point deadline, ncclConfig_t* config = nullptr);
  [[nodiscard]] ncclComm_t handle() const;
  ncclResult_t check(char const* call, ncclResult_t result) const;
  void settle(char const* call, ncclResult_t result, ncclComm_t handle, Clock::time_point deadline) const;
  /// The turn inside NCCL; not owned if another thread has not come out by `deadline`.
  [[nodiscard]] std::unique_lock<std::mutex> try_to_enter(Clock::time_point deadline) noexcept;
  /// The same; throws PeerError at the deadline, or when the job has failed before.
  [[nodiscard]] std::unique_lock<std::mutex> enter(char const* call, Clock::time_point deadline);
  enum class Ending : std::uint8_t { abort, destruction };
  /// Waits a while for NCCL to do it, and longer for a destruction that other ranks have not come to; then no longer.
  void end_handle(Ending ending) noexcept;
  void drop() noexcept { end_handle(Ending::abort); }

  JobFailed failed_;
  std::atomic<int> windows_{0};
  std::mutex mutex_;  // held inside NCCL
  ncclComm_t handle_ = nullptr;
  /// What NCCL reads as long as there is the handle, and writes when it is done, however late: it may not be gone by
  /// then.
  struct Owned {
    std::string name;
    std::deque<ncclComm_t> handles;
    std::deque<ncclWindow_t> windows;
  };
  std::shared_ptr<Owned> owned_ = std::make_shared<Owned>();
};

}  // namespace zeroth::comm
