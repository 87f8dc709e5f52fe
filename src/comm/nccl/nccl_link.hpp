// SPDX-License-Identifier: Apache-2.0
/// One non-blocking communicator of NCCL, all of whose waits have a timeout.
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

/// The handle, and its resources. Shared by the communicator, whose thread makes calls, and by the watch, which checks
/// for errors and aborts. NCCL allows only one thread at a time inside a communicator, so they take turns.
class NcclLink {
 public:
  /// Why the job has failed, or nullopt. A thread that waits in NCCL polls it.
  using JobFailed = std::function<std::optional<std::string>()>;

  struct Identity {
    Group group;
    int gpu = 0;
    /// All-gathers inside one machine use copy engines instead of multiprocessors, if NCCL can. The same on all ranks.
    bool copy_engine = false;
  };
  NcclLink(Identity identity, FlightRecorder& recorder, JobFailed failed);
  ~NcclLink();
  NcclLink(NcclLink const&) = delete;
  NcclLink& operator=(NcclLink const&) = delete;

  Identity const identity;
  NcclPending pending;
  /// Transactions of all ranks that this rank has submitted; read to answer status queries.
  std::atomic<std::uint64_t> submitted{0};

  [[nodiscard]] int world() const noexcept { return identity.group.world(); }
  /// "communicator 'gather'"
  [[nodiscard]] std::string const& name() const noexcept { return identity.group.name; }

  /// Makes the handle from an id that all ranks share. Throws SystemError on an NCCL error, PeerError at the deadline
  /// or when the job fails; then nothing is left of it.
  void start(ncclUniqueId const& id, Clock::time_point deadline);
  /// Makes the handle from `parent`, which must be idle. A rank without a color calls split_off() instead.
  void start_from(NcclLink& parent, int color, int key, Clock::time_point deadline);
  /// Takes part in a split that gives this rank nothing.
  void split_off(Clock::time_point deadline) { static_cast<void>(split(NCCL_SPLIT_NOCOLOR, 0, deadline)); }

  /// Calls `function(handle)`, alone inside NCCL, and waits until NCCL is ready for the next call. Throws as start()
  /// does, with `call` in the message.
  template <class F>
  void call(char const* call, Clock::time_point deadline, F const& function) {
    auto const lock = enter(call, deadline);
    check(call, function(handle()));
    // Whatever it returned: for splits and windows, NCCL 2.28 to 2.30 returns success when they have only begun.
    settle(call, ncclInProgress, handle_, deadline);
  }

  /// Makes a window on `bytes` at `memory`; null if NCCL gains nothing from one. Collective. Throws as call() does.
  [[nodiscard]] ncclWindow_t make_window(void* memory, std::int64_t bytes, Clock::time_point deadline);
  /// Whether memory is registered.
  [[nodiscard]] bool has_windows() const noexcept { return windows_.load(std::memory_order_relaxed) > 0; }
  /// Ends a window of the handle, if that still exists, and no other thread blocks this one.
  void forget(ncclWindow_t window, Clock::time_point deadline) noexcept;
  /// The last error inside NCCL; empty if there is none. Skipped while another thread is inside.
  [[nodiscard]] std::string find_error();
  /// Aborts the work on the GPU, and the handle. Waits a limited time for another thread to leave NCCL, and for the
  /// abort.
  void abort() noexcept;
  /// Ends the handle once it is idle; aborts it if that takes longer than `deadline`. Then waits for the other ranks of
  /// this machine to do so, as long as the job continues.
  void finish(Clock::time_point deadline) noexcept;

 private:
  [[nodiscard]] ncclConfig_t config() const;
  /// False where NCCL would hang.
  [[nodiscard]] bool uses_copy_engine() const;
  [[nodiscard]] ncclComm_t split(int color, int key, Clock::time_point deadline, ncclConfig_t* config = nullptr);
  [[nodiscard]] ncclComm_t handle() const;
  ncclResult_t check(char const* call, ncclResult_t result) const;
  void settle(char const* call, ncclResult_t result, ncclComm_t handle, Clock::time_point deadline) const;
  /// The lock that guards NCCL; not owned if another thread is still inside at `deadline`.
  [[nodiscard]] std::unique_lock<std::mutex> try_to_enter(Clock::time_point deadline) noexcept;
  /// The lock that guards NCCL. Throws PeerError at the deadline, or if the job has failed.
  [[nodiscard]] std::unique_lock<std::mutex> enter(char const* call, Clock::time_point deadline);
  enum class Ending : std::uint8_t { abort, destruction };
  /// Waits a limited time for NCCL to do it; longer for a destruction that other ranks have not called yet.
  void end_handle(Ending ending) noexcept;
  void drop() noexcept { end_handle(Ending::abort); }

  JobFailed failed_;
  std::atomic<int> windows_{0};
  std::mutex mutex_;  // held inside NCCL
  ncclComm_t handle_ = nullptr;
  /// Memory that NCCL reads while the handle exists, and writes at completion, however late: it must still exist then.
  struct Owned {
    std::string name;
    std::deque<ncclComm_t> handles;
    std::deque<ncclWindow_t> windows;
  };
  std::shared_ptr<Owned> owned_ = std::make_shared<Owned>();
};

}  // namespace zeroth::comm
