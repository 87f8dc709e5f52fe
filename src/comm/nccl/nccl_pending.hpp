// SPDX-License-Identifier: Apache-2.0
/// Transactions that are on their way on a GPU: begun and ended as events say, whose deadlines somebody watches.
#pragma once
#include <cuda_runtime_api.h>

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "comm/record.hpp"
#include "comm/transaction.hpp"
#include "device/failure.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// Of one communicator. Its thread launches; any thread may do the rest. No allocation once the most of it at a time
/// has been seen.
class NcclPending {
 public:
  /// One transaction. Names are copied: those that the caller gave may end with the work.
  struct Work {
    Transaction* transaction = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    cudaStream_t stream = nullptr;
    std::shared_ptr<device::Failure> failure;  ///< Of the device that it is on.
    Record names;
    std::optional<Clock::time_point> begun;  ///< When it was first seen to have begun.
    bool kept = false;                       ///< Somebody speaks of it.
  };
  /// What has gone on for longer than it may.
  struct Late {
    Transaction const* transaction;  ///< Kept until abandon().
    Clock::time_point begun;
  };

  /// `recorder` and `job_ranks`, [world] of the communicator, outlive it.
  NcclPending(FlightRecorder& recorder, int gpu, std::span<int const> job_ranks)
      : recorder_{recorder}, gpu_{gpu}, pool_{job_ranks} {}
  ~NcclPending();
  NcclPending(NcclPending const&) = delete;
  NcclPending& operator=(NcclPending const&) = delete;

  /// A transaction of the pool, as TransactionPool::take().
  [[nodiscard]] Transaction& take(Label const& label, std::span<Collective const> collectives,
                                  std::chrono::milliseconds timeout) {
    return pool_.take(label, collectives, timeout);
  }
  void recycle(Transaction& transaction) noexcept { pool_.recycle(transaction); }

  /// Marks where `transaction` begins on `stream`. Throws SystemError where CUDA refuses.
  [[nodiscard]] Work& begin(Transaction& transaction, std::shared_ptr<device::Failure> failure, cudaStream_t stream);
  /// Marks where it ends; from here on it is watched.
  void launched(Work& work, cudaStream_t stream);
  /// It was not launched.
  void cancel(Work& work) noexcept;

  /// Looks which have begun and ended, tells the recorder, and lets go of those that have. The first that is late.
  [[nodiscard]] std::optional<Late> look(Clock::time_point now);
  [[nodiscard]] bool empty() const;
  /// "all_gather (forward of unit 'a', 12 fp32), transaction 7" of the first that has not ended; empty if all have.
  [[nodiscard]] std::string describe_first() const;
  /// Fails the devices that still have some, each with `error`.
  void fail(std::exception_ptr const& error) noexcept;
  /// Lets go of all, ended or not: nothing of them runs any more.
  void abandon() noexcept;

 private:
  [[nodiscard]] Work& free_one();
  void add_one();
  void settle(Clock::time_point now);
  void release(Work& work) noexcept;

  FlightRecorder& recorder_;
  int gpu_;
  TransactionPool pool_;
  mutable std::mutex mutex_;
  std::deque<Work> all_;
  std::vector<Work*> free_;
  std::deque<Work*> launched_;  // in the order in which they were launched
};

}  // namespace zeroth::comm
