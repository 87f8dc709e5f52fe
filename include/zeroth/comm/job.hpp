// SPDX-License-Identifier: Apache-2.0
/// The job: a rank's handle to it, and the launch of a program as ranks.
#pragma once
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/exit_code.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth {

namespace detail {
struct JobState;
}

/// A rank's handle to its job: all of launch(), or a part made by split().
///
/// Ranks count within this job; messages use the ranks of launch(). Use it only on the rank's own thread, except as
/// noted.
class ZEROTH_EXPORT Job {
 public:
  /// The position of a rank's machine among those of its job. A machine is a running kernel: containers on it count as
  /// one.
  struct Machine {
    int index = 0;  ///< Machines are in the order of their first ranks.
    int count = 1;  ///< Machines of the job.
    int rank = 0;   ///< This rank's index among the job's ranks on its machine, in rank order.
    int ranks = 1;  ///< The job's ranks on this machine; torchrun's LOCAL_WORLD_SIZE.
  };

  Job(Job&& other) noexcept;  ///< A moved-from Job may only be destroyed.
  Job& operator=(Job&&) = delete;
  ~Job();
  [[nodiscard]] int rank() const noexcept;   ///< 0 to world() - 1.
  [[nodiscard]] int world() const noexcept;  ///< Number of ranks of this job.
  /// Index of this rank on its machine, among all ranks of launch(). Not a device index: launchers may hide all devices
  /// but one.
  [[nodiscard]] int local_rank() const noexcept;

  /// The job-wide communicator, for a program's own collectives on streams of a device from make_device(). It lives as
  /// long as the job. Engines split their own communicators from it, and set its options to those of their stage file.
  /// The program must order what runs on it concurrently. For collectives concurrent with compute, see Collectives.
  [[nodiscard]] comm::Communicator& communicator() noexcept;
  /// Makes a device of the kind that this job's ranks compute on; on this rank's GPU if it is one. Use it on the
  /// calling thread only, which must outlive it. Destroy it before the job.
  [[nodiscard]] std::unique_ptr<device::Device> make_device();
  /// Splits the job: ranks that pass the same `color` (0 or above) form a new one, ordered by `key`, then by rank.
  ///
  /// Collective on this job; waits. Use the part like any job. `name`, at most 15 characters, names its communicator in
  /// messages. Destroy it after the engines on it, and before this job. A failure of any rank still terminates all
  /// ranks of launch(). It inherits compute_on(). It sees stops requested on this job, but not the reverse. Throws
  /// ContractError for a negative color or an invalid name.
  [[nodiscard]] Job split(int color, int key, std::string const& name);

  /// Makes a job of the ranks `ranks` of this one, in that order. Only these ranks call it, with the same list and
  /// name; waits for them. Otherwise as split(), and errors as comm::Communicator::create_group().
  [[nodiscard]] Job create_group(std::span<int const> ranks, std::string const& name);
  /// Waits for all ranks of this job, and returns those that have not come within `timeout`, without ending the job:
  /// see comm::Communicator::monitored_barrier().
  [[nodiscard]] std::vector<int> monitored_barrier(std::chrono::milliseconds timeout);
  /// The store of keys and values that all ranks of launch() share. Use it no longer than this job.
  [[nodiscard]] KeyValueStore key_value_store();

  /// The position of this rank's machine among those of this job. Collective; waits. Cost: an all-gather.
  [[nodiscard]] Machine machine();
  /// Splits the job into one part for each machine, with ranks in this job's order: split() by machine().index.
  [[nodiscard]] Job split_by_machine(std::string const& name);

  /// Returns the `bytes` of rank `root` on every rank; those of the others are ignored. Any length and any bytes.
  /// Collective; waits. Throws ContractError if there is no such rank. Cost: two broadcasts and a few allocations.
  [[nodiscard]] std::string broadcast(std::string_view bytes, int root = 0);
  /// Returns the `bytes` of each rank, in rank order, on rank `root`, and nothing on the others. Each rank may have
  /// another length. Collective; waits. Throws as broadcast(). Cost: an all-gather of lengths, a message of each rank
  /// and a few allocations.
  [[nodiscard]] std::vector<std::string> gather(std::string_view bytes, int root = 0);
  /// Returns what gather() returns, on every rank. Cost: a message for each pair of ranks.
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view bytes);

  /// Sums `values` over the ranks, element by element, in rank order; for metrics and counts. Collective: every rank
  /// passes the same number of values; waits. The result is bitwise equal on every transport, NCCL included. Cost: an
  /// all-gather and a few allocations.
  void sum(std::span<double> values);

  /// Asks all ranks to stop: see StepReport::stop. Any thread.
  void request_stop() noexcept;
  /// Records that the work up to `step`, which only grows, is saved, and that a restart would resume from there. A
  /// `step` above all recorded ones, those of earlier attempts included, renews all of LaunchOptions::restarts.
  /// AnyEngine::save() calls it when it commits; call it for checkpoints of your own. One rank suffices. Any thread. No
  /// effect if ranks are processes.
  void note_progress(std::int64_t step);
  /// Engines made after this call compute on `stream`, which must outlive them: see adapters/cuda.hpp. By default an
  /// engine, or its mesh, makes one. Only for jobs on GPUs; otherwise the next engine throws ContractError.
  void compute_on(device::StreamRef stream) noexcept;

 private:
  friend struct detail::JobState;
  explicit Job(detail::JobState& state) noexcept;
  explicit Job(std::unique_ptr<detail::JobState> part) noexcept;
  std::unique_ptr<detail::JobState> part_;  // null if launch() keeps the state
  detail::JobState* state_;
};

/// The devices that ranks compute on: the CPU, or GPUs by CUDA.
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// How launch() starts ranks, and how long it waits for them. Settings of a launcher take precedence.
struct LaunchOptions {
  /// Number of ranks to run as threads, up to 4096, if no launcher (mpirun, mpiexec, srun, torchrun) started this
  /// process as a rank; otherwise ignored. If a launcher started one process only, local runs threads nevertheless.
  /// ZEROTH_THREAD_RANKS, which `zeroth run` sets, overrides it.
  int thread_ranks = 1;
  /// If empty and a launcher started several processes: nccl on GPUs; elsewhere mpi, if the launcher starts MPI
  /// (mpirun, mpiexec, srun with PMI or PMIx) and the library was built with it, and tcp otherwise. If it started one
  /// process: mpi or local, by the same rule. Without a launcher: local.
  /// Rejected: local if a launcher started several processes, a transport that the library was built without, nccl on
  /// the CPU, nccl and tcp without a launcher, and mpi and tcp on GPUs.
  std::optional<comm::Transport> transport = std::nullopt;
  /// With cuda, thread rank r uses GPU r modulo the number of visible GPUs; a rank that is a process uses the GPU of
  /// its local rank, or the only one that it sees. Rejected: cuda if the library was built without it, if there is no
  /// GPU, and with mpi, which works in host memory.
  DeviceKind device = DeviceKind::cpu;
  /// Allows more thread ranks than GPUs, several to a GPU. Without it they are rejected, since they would only share
  /// its memory. nccl rejects this option: it takes one rank per GPU.
  bool share_devices = false;
  /// With mpi, nccl and tcp: time limit for ranks to join, and again to make their first communicator. After it the
  /// ranks that joined exit and name the missing ones, unless MPI's own startup hangs, which reports nothing.
  std::chrono::milliseconds join_timeout{300'000};
  /// How long a rank may take to end after another has failed, before its process is terminated.
  std::chrono::milliseconds failure_grace{5000};
  /// How long ranks may take to stop and end after SIGTERM or SIGUSR1, before their processes are terminated. Launchers
  /// pass Ctrl-C on as SIGTERM, and many kill soon after it; mpirun has an option for the delay.
  std::chrono::milliseconds stop_grace{10'000};
  /// With thread ranks: how many times in a row, without progress (Job::note_progress()), all ranks run `rank_main`
  /// again after a failure with ExitCode::failed. The delay is 1 s, then 2 s, 4 s, up to 30 s. There is no restart
  /// after a requested stop, nor if a rank has not ended. Ranks that are processes cannot restart from inside: see
  /// `zeroth run`.
  int restarts = 0;
};
namespace detail {
ZEROTH_EXPORT int launch(LaunchOptions const& options, std::function<void(Job&)> const& rank_main);
}
/// Runs `rank_main(job)` once per rank. Returns the exit status for main() once all ranks have ended, and prints the
/// first error.
///
/// Returns ExitCode::done, `wrong` after a ConfigError or a ContractError, or `failed` after any other error. Thread
/// ranks call `rank_main` concurrently, so a `mutable` lambda does not compile.
///
/// Failure: an exception on one rank ends all ranks; those that wait for others throw PeerError. Every rank's last
/// collectives are written to zeroth_flight_rank<R>.json. If a rank does not end by itself, it is named, and the
/// process exits with the status that launch() would return. If ranks are processes, launch() does not return after a
/// failure, so that no process is left behind: mpi calls MPI_Abort, and with nccl and tcp each process exits with the
/// status of its own rank's error.
///
/// Signals, while it runs:
/// - SIGINT (Ctrl-C): the first requests a stop; the second terminates the process with status 130.
/// - SIGTERM: the first requests a stop. A second one, or the end of LaunchOptions::stop_grace, writes the flight
///   records and terminates the process by SIGTERM. If the program handles SIGTERM itself, its handler runs instead,
///   after the records are written.
/// - SIGUSR1, which batch systems send some time before the limit, acts like the first SIGTERM, however often it
///   arrives, unless the program handles it.
///
/// A signal that was ignored stays ignored. Between restarts the previous signal handlers are active.
///
/// Threads: one launch at a time. With mpi, nccl and tcp, ranks are processes and `rank_main` runs on the calling
/// thread.
template <class F>
  requires std::invocable<F const&, Job&>
[[nodiscard]] int launch(LaunchOptions const& options, F const& rank_main) {
  return detail::launch(options, rank_main);
}

}  // namespace zeroth
