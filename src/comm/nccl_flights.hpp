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
#include "zeroth/core/counter.hpp"

namespace zeroth::comm {

/// Of one communicator. Its thread launches; any thread may do the rest. No allocation once the most flights at a time
/// have been seen.
class NcclFlights {
 public:
  /// One transaction. Names are copied: those that the caller gave may end with the work.
  struct Flight {
    Transaction* transaction = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
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

  /// `recorder` outlives it.
  NcclFlights(FlightRecorder& recorder, int gpu) : recorder_{recorder}, gpu_{gpu} {}
  ~NcclFlights();
  NcclFlights(NcclFlights const&) = delete;
  NcclFlights& operator=(NcclFlights const&) = delete;

  /// A transaction of the pool, as TransactionPool::take().
  [[nodiscard]] Transaction& take(Label const& label, std::span<Collective const> collectives) {
    return pool_.take(label, collectives);
  }
  void give_back(Transaction& transaction) noexcept { pool_.give_back(transaction); }

  /// Marks where `transaction` begins on `stream`. Throws SystemError where CUDA refuses.
  [[nodiscard]] Flight& begin(Transaction& transaction, std::shared_ptr<device::Failure> failure, cudaStream_t stream);
  /// Marks where it ends; from here on it is watched.
  void launched(Flight& flight, cudaStream_t stream);
  /// It was not launched.
  void cancel(Flight& flight) noexcept;

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
  [[nodiscard]] Flight& free_one();
  void add_one();
  void settle(Clock::time_point now);
  void release(Flight& flight) noexcept;

  FlightRecorder& recorder_;
  int gpu_;
  TransactionPool pool_;
  mutable std::mutex mutex_;
  std::deque<Flight> all_;
  std::vector<Flight*> free_;
  std::deque<Flight*> flying_;  // in the order in which they were launched
};

}  // namespace zeroth::comm
