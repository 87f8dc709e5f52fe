// SPDX-License-Identifier: Apache-2.0
/// Transactions in flight on a GPU. Events show their begin and end, and a watch checks their deadlines.
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

/// Belongs to one communicator, whose thread launches; any thread may call the rest. Allocates only for more
/// transactions in flight than ever before.
class NcclPending {
 public:
  /// One transaction. Names are copied, since those that the caller gave may not outlive the work.
  struct Work {
    Transaction* transaction = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    cudaStream_t stream = nullptr;
    std::shared_ptr<device::Failure> failure;  ///< The failure of its device.
    Record names;
    std::optional<Clock::time_point> begun;  ///< When it was first seen to have begun.
    bool kept = false;                       ///< Whether a message still needs it.
  };
  /// A transaction that has exceeded its timeout.
  struct Late {
    Transaction const* transaction;  ///< Kept until abandon().
    Clock::time_point begun;
  };

  /// `recorder` and `job_ranks`, [world] of the communicator, must outlive this.
  NcclPending(FlightRecorder& recorder, int gpu, std::span<int const> job_ranks)
      : recorder_{recorder}, gpu_{gpu}, pool_{job_ranks} {}
  ~NcclPending();
  NcclPending(NcclPending const&) = delete;
  NcclPending& operator=(NcclPending const&) = delete;

  /// A transaction of the pool, as TransactionPool::take() returns it.
  [[nodiscard]] Transaction& take(Label const& label, std::span<Collective const> collectives,
                                  std::chrono::milliseconds timeout) {
    return pool_.take(label, collectives, timeout);
  }
  void recycle(Transaction& transaction) noexcept { pool_.recycle(transaction); }

  /// Marks the begin of `transaction` on `stream`. Throws SystemError on a CUDA error.
  [[nodiscard]] Work& begin(Transaction& transaction, std::shared_ptr<device::Failure> failure, cudaStream_t stream);
  /// Marks its end. It is watched from now on.
  void launched(Work& work, cudaStream_t stream);
  /// Call if it was not launched.
  void cancel(Work& work) noexcept;

  /// Checks which have begun and ended, informs the recorder, and recycles those that have ended. Returns the first
  /// that is late.
  [[nodiscard]] std::optional<Late> look(Clock::time_point now);
  [[nodiscard]] bool empty() const;
  /// "all_gather (forward of unit 'a', 12 fp32), transaction 7" for the first one that has not ended; empty if all
  /// have.
  [[nodiscard]] std::string describe_first() const;
  /// Fails the devices with transactions in flight, each with `error`.
  void fail(std::exception_ptr const& error) noexcept;
  /// Recycles all, ended or not. None of them may be running any more.
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
  std::deque<Work*> launched_;  // in launch order
};

}  // namespace zeroth::comm
