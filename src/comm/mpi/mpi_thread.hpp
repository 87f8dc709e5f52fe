// SPDX-License-Identifier: Apache-2.0
/// The one thread that calls MPI, and what it is asked to do.
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

/// Non-blocking MPI calls that are started together and end together. Used again and again by one owner, who waits for
/// each use before the next.
class MpiOperation {
 public:
  /// What starts it, on the MPI thread: calls begin() once per MPI call.
  device::Task start;

  /// Makes one call that gives a request: `function(MPI_Request*)`. Passed over once one has failed.
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

  /// `bytes` as a count and a type that lasts as long as this use.
  [[nodiscard]] MpiExtent extent(std::int64_t bytes);

  /// Waits until it is over or `deadline` has come; true if it is over. Throws SystemError if MPI refused.
  [[nodiscard]] bool wait_until(Clock::time_point deadline) const;

 private:
  friend class MpiThread;
  void fail(int code, char const* call) noexcept { code_ = code, call_ = call; }

  std::vector<MPI_Request> requests_;
  std::vector<MPI_Datatype> types_;
  std::size_t outstanding_ = 0;
  int code_ = MPI_SUCCESS;
  char const* call_ = "";
  std::uint32_t uses_ = 0;  // the owner's
  Counter done_;
};

/// Starts operations in the order in which they come, and advances all of them at once. Never waits in MPI, so that an
/// operation whose peers are late holds up no other, and control messages are read whatever happens.
class MpiThread {
 public:
  /// `service` runs in every round and returns whether it found work to do. What it throws goes to `failed`.
  MpiThread(std::function<bool()> service, std::function<void(char const*)> failed);
  ~MpiThread();  ///< Ends the thread after what was posted. Operations under way are given up.
  MpiThread(MpiThread const&) = delete;
  MpiThread& operator=(MpiThread const&) = delete;

  /// Any thread; the operation and the buffers it names must live until it is over or the thread is halted.
  void start(MpiOperation& operation);
  /// Runs `call` on the MPI thread, later. Any thread.
  void post(std::function<void()> call);
  /// Runs `call` on the MPI thread, waits for it and throws what it throws. Any other thread.
  void run(std::function<void()> const& call);

  /// From now on nothing is started or advanced, so that memory given to MPI may be freed; posted calls still run.
  /// On the MPI thread.
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
  // the thread's own
  std::vector<Entry> taken_;
  std::vector<MPI_Request> requests_;  // [active]
  std::vector<MpiOperation*> owners_;  // [active]
  std::vector<int> completed_;         // [active], what MPI_Testsome gives
  std::vector<MPI_Status> statuses_;   // [active]
  int quiet_rounds_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace zeroth::comm
