// SPDX-License-Identifier: Apache-2.0
/// The job: who this rank is, and how a program becomes ranks.
#pragma once
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/exit_code.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth {

namespace detail {
struct JobState;
}

/// This rank's place in a job: that of launch(), or a part of it. Ranks count within the job; messages name the ranks
/// of launch(). Belongs to the thread that its rank runs on, unless a call says otherwise.
class ZEROTH_EXPORT Job {
 public:
  Job(Job&& other) noexcept;  ///< What was moved from may only end.
  Job& operator=(Job&&) = delete;
  ~Job();
  [[nodiscard]] int rank() const noexcept;   ///< 0 to world() - 1.
  [[nodiscard]] int world() const noexcept;  ///< Ranks of this job.
  /// Index on this machine, among all ranks of launch(). Not a device: launchers may hide all but one.
  [[nodiscard]] int local_rank() const noexcept;

  /// Of all ranks of this job, for a program's own collectives, on streams of a device that make_device() made. Lives
  /// as long as the job. Engines split their own from it, and set its options to those of their stage file; what is
  /// under way on it at the same time is the program's. To run beside compute: see Collectives.
  [[nodiscard]] comm::Communicator& communicator() noexcept;
  /// A device of the kind that this job's ranks compute on, on this rank's GPU if it is one. For the calling thread,
  /// which outlives it; ends before the job.
  [[nodiscard]] std::unique_ptr<device::Device> make_device();
  /// A job of the ranks that give the same `color`, 0 or above, ordered by `key`, then by rank: whatever takes a job
  /// takes a part. Collective on this one; waits. `name`, at most 15 characters, is its communicator's in messages.
  /// Ends before this one, and after the engines on it. Parts share the fate of the whole: what fails one rank ends all
  /// ranks of launch(). compute_on() is as here until it is called there; a stop that is requested here is seen there,
  /// and not the other way round. Throws ContractError for a negative color or a wrong name.
  [[nodiscard]] Job split(int color, int key, std::string const& name);

  /// Adds up `values` over the ranks, one by one, in rank order: for metrics and counts. Collective: every rank gives
  /// as many; waits for all. The same bits on every transport, NCCL too. Cost: an all-gather and a few allocations.
  void sum(std::span<double> values);

  /// Asks all ranks to stop, see StepReport::stop. Any thread.
  void request_stop() noexcept;
  /// For who commits a checkpoint: the work up to `step`, a number that grows, is saved, and a restart goes on from
  /// there. Where that is more than was noted before, in earlier attempts too, all of LaunchOptions::restarts are ahead
  /// again. One rank is enough; any thread. Without effect where ranks are processes.
  void note_progress(std::int64_t step);
  /// Engines made from now on compute on this stream of the caller's, which outlives them: see adapters/cuda.hpp. Until
  /// then each makes one. For jobs on GPUs; elsewhere the next engine throws ContractError.
  void compute_on(device::StreamRef stream) noexcept;

 private:
  friend struct detail::JobState;
  explicit Job(detail::JobState& state) noexcept;
  explicit Job(std::unique_ptr<detail::JobState> part) noexcept;
  std::unique_ptr<detail::JobState> part_;  // null: launch() keeps the state
  detail::JobState* state_;
};

/// What ranks compute on: the CPU, or GPUs by CUDA.
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// How launch() makes ranks, and how long it waits for them. What a launcher says comes first.
struct LaunchOptions {
  /// Ranks to run as threads if mpirun, mpiexec, srun or torchrun started none; otherwise this process is one rank,
  /// whatever is given here. Under a launcher of one process, asking for local runs threads all the same. `zeroth run`
  /// says how many in ZEROTH_THREAD_RANKS, which counts instead. Up to 4096.
  int thread_ranks = 1;
  /// Empty: if a launcher started several processes, nccl on GPUs; elsewhere mpi if the launcher starts MPI (mpirun,
  /// mpiexec, srun with PMI or PMIx) and the library was built with it, and tcp otherwise. If it started one, mpi or
  /// local alike. Without a launcher local. Refused: local where a launcher started several, what the library was built
  /// without, nccl on the CPU, nccl and tcp without a launcher, and mpi and tcp on GPUs.
  std::optional<comm::Transport> transport = std::nullopt;
  /// What ranks compute on. With cuda, thread rank r is on GPU r, counted modulo the GPUs that the process sees; a
  /// process that is a rank is on the GPU of its local rank, or on the only one that it sees. Refused: cuda where the
  /// library was built without it, where no GPU is there, and with mpi, which works in memory of the host.
  DeviceKind device = DeviceKind::cpu;
  /// With cuda: more thread ranks than GPUs are wanted, several to a GPU. Refused otherwise: they would only share its
  /// memory. With nccl, which takes one rank for each GPU, it is refused itself.
  bool share_devices = false;
  /// With mpi, nccl and tcp: how long ranks may take to come, and then to make their first communicator. After that
  /// those who have come end, and name those who have not, unless it is MPI itself that starts and does not say.
  std::chrono::milliseconds join_timeout{300'000};
  /// How long a rank may take to end after another one has failed, before the process is ended under it.
  std::chrono::milliseconds failure_grace{5000};
  /// How long ranks may take to stop and end after SIGTERM or SIGUSR1 has asked them to, before their processes are
  /// ended under them. Launchers pass Ctrl-C on as SIGTERM, and many kill soon after it: mpirun has an option for when.
  std::chrono::milliseconds stop_grace{10'000};
  /// With thread ranks: how often in a row, without progress, all ranks begin again with `rank_main` after a failure of
  /// ExitCode::failed, 1 s later, then 2 s, 4 s, up to 30 s: see Job::note_progress(). Not after a stop was requested,
  /// nor where a rank has not ended. Ranks that are processes cannot begin again from inside: see `zeroth run`.
  int restarts = 0;
};
namespace detail {
ZEROTH_EXPORT int launch(LaunchOptions const& options, std::function<void(Job&)> const& rank_main);
}
/// Runs `rank_main` once per rank; returns main()'s exit status once all ranks were ended: ExitCode::done, or after the
/// first error was printed `wrong` if that was a ConfigError or a ContractError, and `failed` otherwise. Thread ranks
/// call `rank_main` at the same time, so a `mutable` lambda does not compile.
///
/// Failure: what one rank throws ends all ranks, with PeerError where they wait for others. The last collectives of
/// every rank are written as zeroth_flight_rank<R>.json. A rank that does not end by itself is named, and the process
/// ends with the status that launch() would return. Across processes a failed job ends in here, by MPI_Abort, or with
/// nccl and tcp by the end of each process, so that none is left behind; each ends with the status of what its rank
/// threw.
/// Signals, while it runs: the first Ctrl-C requests a stop, a second one ends the process with status 130. The first
/// SIGTERM does as well; a second one, or LaunchOptions::stop_grace, ends the process by SIGTERM, after the flight
/// records. A program that handles SIGTERM by itself is only given those first. SIGUSR1, which batch systems send some
/// time ahead, is to a program that does not handle it as the first SIGTERM, however often it comes. A signal that was
/// ignored stays so. In the pauses between restarts signals do what they did before.
/// Threads: one launch at a time. With mpi, nccl and tcp, ranks are processes and `rank_main` runs on the
/// calling thread.
template <class F>
  requires std::invocable<F const&, Job&>
[[nodiscard]] int launch(LaunchOptions const& options, F const& rank_main) {
  return detail::launch(options, rank_main);
}

}  // namespace zeroth
