/// The job: who this rank is, and how a program becomes ranks.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "zeroth/comm/communicator.hpp"

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
  [[nodiscard]] int local_rank() const noexcept;  ///< Index on this machine. Not a device: launchers may hide all but one.
  void request_stop() noexcept;                   ///< Any thread: asks all ranks to stop, see StepReport::stop.

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
  [[nodiscard]] static JobState& of(Job& job) noexcept { return *job.state_; }
  [[nodiscard]] Job job() noexcept { return Job{*this}; }
};
}  // namespace detail

struct LaunchOptions {
  int thread_ranks = 1;  ///< Ranks to run as threads if mpirun, torchrun or srun started none.
  /// Empty: mpi if a launcher started this process, otherwise local. Asking for local under a launcher, or for mpi where
  /// the library was built without it, is refused.
  std::optional<comm::Transport> transport = std::nullopt;
};
namespace detail {
int launch(LaunchOptions const& options, std::function<void(Job&)> const& rank_main);
}
/// Runs `rank_main` once per rank; returns main()'s exit status: 0, or 1 once all ranks were ended and the first error was
/// printed. Ctrl-C requests a stop, a second one ends the process. Thread ranks call `rank_main` at the same time, so a
/// `mutable` lambda does not compile.
template <class F>
  requires std::invocable<F const&, Job&>
[[nodiscard]] int launch(LaunchOptions const& options, F const& rank_main) {
  return detail::launch(options, rank_main);
}

}  // namespace zeroth
