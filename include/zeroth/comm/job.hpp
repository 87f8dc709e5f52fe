/// The job: who this rank is, and how a program becomes ranks.
#pragma once
#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {

namespace detail {
struct JobState;
}

/// This rank's place in the job.
class Job {
 public:
  Job(Job const&) = delete;
  Job& operator=(Job const&) = delete;
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int world() const noexcept;
  /// Index on this machine. Not a device: launchers may hide all but one.
  [[nodiscard]] int local_rank() const noexcept;
  /// Asks all ranks to stop, see StepReport::stop. Any thread.
  void request_stop() noexcept;
  /// Engines made from now on compute on this stream of the caller's, which outlives them: see adapters/cuda.hpp. Until
  /// then each makes one. For jobs on GPUs; elsewhere the next engine throws ContractError.
  void compute_on(device::StreamRef stream) noexcept;

 private:
  friend struct detail::JobState;
  explicit Job(detail::JobState& state) noexcept : state_{&state} {}
  detail::JobState* state_;
};

namespace detail {
/// What is behind a Job. Made by launch(), and by tests around a communicator of their own.
struct JobState {
  std::unique_ptr<comm::Communicator> communicator;  ///< All ranks; engines split theirs from it.
  int local_rank = 0;
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void()> request_stop = [] {};
  std::function<std::unique_ptr<device::Device>()> make_device = device::make_cpu_device;
  std::optional<device::StreamRef> compute_stream;  ///< Empty: the device's own.
  /// Where this job's flight records are written if it fails; the working folder otherwise. Any thread; the last one
  /// wins.
  std::function<void(std::filesystem::path const&)> set_flight_folder = [](std::filesystem::path const&) {};
  [[nodiscard]] static JobState& of(Job& job) noexcept { return *job.state_; }
  [[nodiscard]] Job job() noexcept { return Job{*this}; }
};
}  // namespace detail

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct LaunchOptions {
  /// Ranks to run as threads if mpirun, mpiexec, srun or torchrun started none; otherwise this process is one rank,
  /// whatever is given here. Under a launcher of one process, asking for local runs threads all the same. Up to 4096.
  int thread_ranks = 1;
  /// Empty: if a launcher started several processes, nccl on GPUs and mpi elsewhere; mpi if the launcher is MPI's own;
  /// otherwise local. Refused: local where a launcher started several, what the library was built without, nccl on the
  /// CPU or without a launcher, and mpi on GPUs.
  std::optional<comm::Transport> transport = std::nullopt;
  /// What ranks compute on. With cuda, thread rank r is on GPU r, counted modulo the GPUs that the process sees; a
  /// process that is a rank is on the GPU of its local rank, or on the only one that it sees. Refused: cuda where the
  /// library was built without it, where no GPU is there, and with mpi, which works in memory of the host.
  DeviceKind device = DeviceKind::cpu;
  /// With cuda: more thread ranks than GPUs are wanted, several to a GPU. Refused otherwise: they would only share its
  /// memory. With nccl, which takes one rank for each GPU, it is refused itself.
  bool share_devices = false;
  /// With mpi and nccl: how long ranks may take to come, and then to make their first communicator. After that those
  /// who have come end, and name those who have not, unless it is MPI itself that starts and does not say.
  std::chrono::milliseconds join_timeout{300'000};
  /// How long a rank may take to end after another one has failed, before the process is ended under it.
  std::chrono::milliseconds failure_grace{5000};
  /// How long ranks may take to stop and end after SIGTERM has asked them to, before their processes are ended under
  /// them. Launchers pass Ctrl-C on as SIGTERM, and many kill soon after it: mpirun has an option for when.
  std::chrono::milliseconds stop_grace{10'000};
};
namespace detail {
int launch(LaunchOptions const& options, std::function<void(Job&)> const& rank_main);
}
/// Runs `rank_main` once per rank; returns main()'s exit status: 0, or 1 once all ranks were ended and the first error
/// was printed. Thread ranks call `rank_main` at the same time, so a `mutable` lambda does not compile.
///
/// Failure: what one rank throws ends all ranks, with PeerError where they wait for others. The last collectives of
/// every rank are written as zeroth_flight_rank<R>.json. A rank that does not end by itself is named, and the process
/// ends with status 1. Across processes a failed job ends in here, by MPI_Abort, or with nccl by the end of each
/// process, so that none is left behind. Signals, while it runs: the first Ctrl-C requests a stop, a second one ends
/// the process with status 130. The first SIGTERM does as well; a second one, or LaunchOptions::stop_grace, ends the
/// process by SIGTERM, after the flight records. A program that handles SIGTERM by itself is only given those first. A
/// signal that was ignored stays so.
/// Threads: one launch at a time. With mpi and nccl, ranks are processes and `rank_main` runs on the calling thread.
template <class F>
  requires std::invocable<F const&, Job&>
[[nodiscard]] int launch(LaunchOptions const& options, F const& rank_main) {
  return detail::launch(options, rank_main);
}

}  // namespace zeroth
