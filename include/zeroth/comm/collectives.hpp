// SPDX-License-Identifier: Apache-2.0
/// A program's own collectives, concurrent with its compute.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth {

/// Asynchronous collectives on their own communicator and stream. What start() enqueues runs concurrently until wait()
/// on the Work that it returned, like torch's async_op=True and Work.
///
///   zeroth::Collectives beside{job, "features"};
///   auto const sum = beside.start({.operation = Operation::all_reduce, .input = x, .output = x, .count = n}, "norm");
///   ...                  // work that does not touch x
///   sum.wait();
///
/// Order: a collective begins once compute has reached its start(), so its inputs are ready; its results are ready for
/// what compute does after wait(). Compute is the calling thread on the CPU, and compute_stream() on a GPU. Every rank
/// starts the same collectives in the same order; engines, and other Collectives, are independent of this order.
/// Threads: use it on the thread that made it. Destroy it before its job. Memory: an event for each collective in
/// flight, and the scratch memory of reductions over mpi, which grows to the largest one; after that nothing is
/// allocated.
class ZEROTH_EXPORT Collectives {
 public:
  class Work;

  /// Collective on `job`; waits. `name`, at most 15 characters, names the communicator in messages. On GPUs compute is
  /// the stream given to Job::compute_on(), or else a stream that this object makes. Throws ContractError for an
  /// invalid name.
  Collectives(Job& job, std::string const& name, comm::CommOptions const& options = {});
  Collectives(Collectives const&) = delete;
  Collectives& operator=(Collectives const&) = delete;
  ~Collectives();

  /// Starts `collectives` as one transaction: several, or the list of one whose blocks differ in length, from
  /// zeroth/comm/uneven.hpp. `what` names them in messages and is the same on all ranks. `what` and all buffers must
  /// stay valid until the wait is over. Throws ContractError if comm::Communicator::submit() rejects them.
  [[nodiscard]] Work start(std::span<comm::Collective const> collectives, std::string_view what);
  /// Starts one collective as a separate transaction.
  [[nodiscard]] Work start(comm::Collective const& collective, std::string_view what);

  /// The communicator, for its name, rank, world and options. Transactions submitted to it directly are ordered among
  /// the started ones.
  [[nodiscard]] comm::Communicator& communicator() noexcept { return *communicator_; }
  /// The stream that produces inputs and uses results; null on the CPU, where the calling thread does.
  [[nodiscard]] device::StreamRef compute_stream() noexcept { return device_->compute().native(); }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<device::Stream> stream_;              // ends before what its work uses
  std::vector<std::unique_ptr<device::Event>> events_;  // not in use by any Work
};

/// Collectives that were started. Destroy it before its Collectives. Destroying it before wait() waits without
/// reporting errors; the next call throws them. If an exception destroys it, it aborts the job's waits, because the
/// other ranks cannot know.
class ZEROTH_EXPORT Collectives::Work {
 public:
  Work(Work&& other) noexcept;  ///< A moved-from Work counts as waited for.
  Work& operator=(Work&&) = delete;
  ~Work();
  /// Orders later work of compute after the collectives: blocks on the CPU, enqueues a wait on a GPU. A second call
  /// does nothing. Throws PeerError if they failed: see comm::Communicator.
  void wait();
  /// Blocks the host until they have finished, then does what wait() does and returns true; returns false if that takes
  /// longer than `most`. The program may continue and call it again. Throws PeerError if they failed. Polls every 0.1
  /// ms.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds most);
  /// Whether they have finished. Never blocks. True after wait() on the CPU.
  [[nodiscard]] bool done() const;
  /// Why the job failed; nullopt while it has not. Never blocks and never throws it.
  [[nodiscard]] std::optional<std::string> error() const;

 private:
  friend class Collectives;
  Work(Collectives& owner, std::unique_ptr<device::Event> event) noexcept;

  Collectives* owner_;
  std::unique_ptr<device::Event> event_;  // null once waited for
  int exceptions_at_start_;
};

}  // namespace zeroth
