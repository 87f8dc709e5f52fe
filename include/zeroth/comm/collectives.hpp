// SPDX-License-Identifier: Apache-2.0
/// A program's own collectives, beside its compute.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth {

/// Collectives on a communicator and a stream of their own: what start() enqueues runs while the caller goes on, until
/// wait() on what it returned. torch calls this async_op=True and Work.
///
///   zeroth::Collectives beside{job, "features"};
///   auto const sum = beside.start({.operation = Operation::all_reduce, .input = x, .output = x, .count = n}, "norm");
///   ...                  // work that does not touch x
///   sum.wait();
///
/// Order: what is started begins when compute has come to where it was started, so that its inputs are ready, and its
/// results are ready for what compute does after wait(). Compute is the calling thread on the CPU, and compute_stream()
/// on a GPU. Every rank starts the same in the same order; engines, and other Collectives, are independent of it.
/// Threads: the one that made it. Ends before its job. Memory: none, but for the scratch memory of reductions by mpi,
/// which grows to the largest, and an event for each that is under way; nothing is allocated once both have been seen.
class ZEROTH_EXPORT Collectives {
 public:
  class Work;

  /// Collective on `job`; waits. `name`, at most 15 characters, is that of the communicator in messages. On GPUs
  /// compute is the stream that Job::compute_on() gave, and otherwise a stream that this makes. Throws ContractError
  /// for a wrong name.
  Collectives(Job& job, std::string const& name, comm::CommOptions const& options = {});
  Collectives(Collectives const&) = delete;
  Collectives& operator=(Collectives const&) = delete;
  ~Collectives();

  /// Starts `collectives` as one transaction. `what` names them in messages, the same on all ranks, and outlives the
  /// wait; so does memory. Throws ContractError for what comm::Communicator::submit() refuses.
  [[nodiscard]] Work start(std::span<comm::Collective const> collectives, std::string_view what);
  /// One collective as a transaction of its own.
  [[nodiscard]] Work start(comm::Collective const& collective, std::string_view what);
  /// comm::Communicator::all_to_all_v(), started.
  [[nodiscard]] Work start_all_to_all_v(void const* input, std::span<std::int64_t const> send_counts, void* output,
                                        std::span<std::int64_t const> receive_counts, Dtype dtype,
                                        std::string_view what);

  /// For its name, rank, world and options. What is submitted to it goes between what is started.
  [[nodiscard]] comm::Communicator& communicator() noexcept { return *communicator_; }
  /// What inputs are made on and results are used on; null on the CPU, where it is the calling thread.
  [[nodiscard]] device::StreamRef compute_stream() noexcept { return device_->compute().native(); }

 private:
  template <class Submit>
  [[nodiscard]] Work begin(Submit const& submit);

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<device::Stream> stream_;              // ends before what its work uses
  std::vector<std::unique_ptr<device::Event>> events_;  // that no work has
};

/// What was started. Ends before its Collectives. One that was not waited for waits where it ends, without a word about
/// what went wrong: that comes up at the next call. Where an exception ends it, it ends the job's waits instead, since
/// the other ranks cannot know.
class [[nodiscard]] ZEROTH_EXPORT Collectives::Work {
 public:
  Work(Work&& other) noexcept;  ///< What was moved from is as if waited for.
  Work& operator=(Work&&) = delete;
  ~Work();
  /// What compute does from here on comes after it: on the CPU this blocks, on a GPU it is enqueued. Again: nothing.
  /// Throws PeerError for what ended it: see comm::Communicator.
  void wait();
  /// Is it over? Asks, and waits for nothing. True after wait() on the CPU.
  [[nodiscard]] bool done() const;

 private:
  friend class Collectives;
  Work(Collectives& owner, std::unique_ptr<device::Event> event) noexcept;

  Collectives* owner_;
  std::unique_ptr<device::Event> event_;  // null once waited for
  int exceptions_at_start_;
};

}  // namespace zeroth
