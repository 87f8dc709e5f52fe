// SPDX-License-Identifier: Apache-2.0
/// The only thread that calls MPI, and the operations that it runs.
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_call.hpp"
#include "core/counter.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm {

/// Non-blocking MPI calls that are started together and end together. Reused by one owner, which waits for each use
/// before the next.
class MpiOperation {
 public:
  /// Starts it on the MPI thread: calls begin() once per MPI call.
  device::Task start;

  /// Makes one call that returns a request: `function(MPI_Request*)`. Skipped once a call has failed.
  template <class F>
  void begin(char const* call, F const& function) {
    if (code_ != MPI_SUCCESS) {
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (int const code = function(&request); code != MPI_SUCCESS) {
      fail(code, call);
    } else if (request != MPI_REQUEST_NULL) {
      requests_.push_back(request);
    }
    call_ = call;
  }

  /// `bytes` as a count and a type that is valid during this use.
  [[nodiscard]] MpiExtent extent(std::int64_t bytes);

  /// Waits until it is complete or `deadline` has passed; true if it is complete. Throws SystemError if MPI failed.
  [[nodiscard]] bool wait_until(Clock::time_point deadline) const;

 private:
  friend class MpiThread;
  void fail(int code, char const* call) noexcept { code_ = code, call_ = call; }

  std::vector<MPI_Request> requests_;
  std::vector<MPI_Datatype> types_;
  std::size_t outstanding_ = 0;
  int code_ = MPI_SUCCESS;
  char const* call_ = "";
  std::uint32_t uses_ = 0;  // used by the owner
  Counter done_;
};

/// Starts operations in the order in which they are posted, and advances all of them concurrently. Never blocks in MPI,
/// so that an operation whose peers are late does not delay others, and control messages are always read.
class MpiThread {
 public:
  /// `service` runs in every round and returns whether it found work to do. Its exceptions are passed to `failed`.
  MpiThread(std::function<bool()> service, std::function<void(char const*)> failed);
  ~MpiThread();  ///< Ends the thread after all posted calls. Operations in flight are abandoned.
  MpiThread(MpiThread const&) = delete;
  MpiThread& operator=(MpiThread const&) = delete;

  /// Any thread; the operation and its buffers must live until it is complete or the thread is halted.
  void start(MpiOperation& operation);
  /// Runs `call` on the MPI thread, later. Any thread.
  void post(std::function<void()> call);
  /// Runs `call` on the MPI thread, waits for it and rethrows its exception. Any other thread.
  void run(std::function<void()> const& call);

  /// From now on nothing is started or advanced, so that memory given to MPI may be freed; posted calls still run. Call
  /// on the MPI thread.
  void halt() noexcept { halted_.add(); }
  [[nodiscard]] bool halted() const noexcept { return halted_.value() != 0; }
  [[nodiscard]] bool wait_until_halted(Clock::time_point deadline) const { return halted_.wait_until(1, deadline); }
  [[nodiscard]] static bool is_current() noexcept;  ///< Whether the caller is an MPI thread.

 private:
  struct Entry {
    MpiOperation* operation = nullptr;
    std::function<void()> call;
  };

  void loop() noexcept;
  [[nodiscard]] bool take_posted();
  void begin(MpiOperation& operation);
  [[nodiscard]] bool advance();
  void finish(MpiOperation& operation) noexcept;
  [[nodiscard]] std::chrono::microseconds pause() const noexcept;

  std::function<bool()> service_;
  std::function<void(char const*)> failed_;
  std::mutex mutex_;
  std::vector<Entry> posted_;
  Counter posts_;
  Counter halted_;
  // used by the thread
  std::vector<Entry> taken_;
  std::vector<MPI_Request> requests_;  // [active]
  std::vector<MpiOperation*> owners_;  // [active]
  std::vector<int> completed_;         // [active], set by MPI_Testsome
  std::vector<MPI_Status> statuses_;   // [active]
  int quiet_rounds_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace zeroth::comm
