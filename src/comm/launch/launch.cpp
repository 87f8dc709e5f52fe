// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>

#include "comm/launch/environment.hpp"
#include "comm/launch/nccl_job.hpp"
#include "comm/launch/placing.hpp"
#include "comm/launch/tcp_job.hpp"
#include "comm/launch/thread_job.hpp"
#include "comm/rank_error.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"
#include "zeroth/tool/core/standard_streams.hpp"
#ifdef ZEROTH_HAS_MPI
#include "comm/launch/mpi_job.hpp"
#endif

namespace zeroth::detail {
namespace {

#ifdef ZEROTH_HAS_MPI
constexpr bool has_mpi = true;
#else
constexpr bool has_mpi = false;
#endif

using RankMain = std::function<void(Job&)>;

/// The function that runs a job over a transport.
struct JobOver {
  comm::Transport transport;
  int (*run)(LaunchOptions const&, std::optional<comm::LaunchedRank> const&, RankMain const&);
};
/// One row for each transport that the library was built with; see transport_table.
constexpr std::array jobs{
    JobOver{comm::Transport::local, [](auto const& options, auto const& /*launched*/,
                                       auto const& rank_main) { return comm::run_thread_job(options, rank_main); }},
#ifdef ZEROTH_HAS_MPI
    JobOver{comm::Transport::mpi, comm::run_process_job},
#endif
    JobOver{comm::Transport::nccl,
            [](auto const& options, auto const& launched, auto const& rank_main) {
              return comm::run_nccl_job(options, *launched, rank_main);
            }},
    JobOver{comm::Transport::tcp,
            [](auto const& options, auto const& launched, auto const& rank_main) {
              return comm::run_tcp_job(options, *launched, rank_main);
            }},
};

int run(comm::LaunchPlan const& plan, LaunchOptions options, std::optional<comm::LaunchedRank> const& launched,
        RankMain const& rank_main) {
  if (options.device == DeviceKind::cuda) {
    comm::check_cuda(plan, options.share_devices, device::has_cuda() ? device::cuda_device_count() : -1,
                     device::why_no_gpu());
  }
  options.thread_ranks = plan.thread_ranks;
  auto const job =
      std::find_if(jobs.begin(), jobs.end(), [&plan](JobOver const& each) { return each.transport == plan.transport; });
  ZEROTH_EXPECTS(job != jobs.end(), "the library was built without the planned transport");
  return job->run(options, launched, rank_main);
}

}  // namespace

int launch(LaunchOptions const& given, std::function<void(Job&)> const& rank_main) {
  try {
    auto const variable =
        comm::without_lone_world([](char const* name) -> char const* { return std::getenv(name); }, given);
    comm::check_spin_variable(variable);
    auto const launched = comm::find_launched_rank(variable);
    auto const options = comm::with_thread_ranks(given, launched, variable);
    return run(comm::plan_launch(options, launched, has_mpi), options, launched, rank_main);
  } catch (...) {  // the job did not start
    auto const error = comm::describe_current_exception();
    print_error(error.text);
    return error.exit_code;
  }
}

}  // namespace zeroth::detail
