#include "comm/nccl_job.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "comm/finally.hpp"
#include "comm/flight_files.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/nccl_session.hpp"
#include "comm/rank_error.hpp"
#include "comm/signals.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::comm {
namespace {

/// For the other ranks to throw, and to write their flight records: launchers kill those that are left as soon as one
/// has ended.
constexpr std::chrono::milliseconds grace_for_others{400};

std::string visible_gpus() {
  char const* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  return text == nullptr ? std::string{} : fmt::format("CUDA_VISIBLE_DEVICES={}", text);
}

/// A name that no other GPU of this machine has.
std::string bus_id_of(int gpu) {
  std::array<char, 32> text{};
  auto const error = cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu);
  if (error != cudaSuccess) {
    throw SystemError{fmt::format("cudaDeviceGetPCIBusId of cuda:{}: {}", gpu, cudaGetErrorString(error))};
  }
  return text.data();
}

RendezvousOptions rendezvous_options(LaunchOptions const& options, Placement const& placement, int gpu) {
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  return {.at = find_meeting_point(variable, placement),
          .rank = placement.rank,
          .world = placement.world,
          .local_rank = placement.local_rank.value_or(0),
          .device = bus_id_of(gpu),
          .sharing = options.share_devices ? Sharing::allow : Sharing::refuse};
}

/// Ends the process, and with it the job. The rank that failed first says why; the others wait until it has, and speak
/// up only if it does not.
[[noreturn]] void end_job(NcclSession& session, FlightFiles& files, RankError const& error,
                          std::chrono::milliseconds grace) {
  bool const is_cause = !error.is_peer_error;
  if (is_cause) {
    print_error(error.text);
  }
  session.fail(fmt::format("rank {} failed: {}", session.rank(), error.bare));
  auto const failure = session.rendezvous().store().failure();
  bool const is_first = !failure || failure->origin == session.rank();
  if (is_first && !is_cause) {
    print_error(error.text);
  }
  files.write(failure ? failure->reason : error.text);
  std::this_thread::sleep_for(is_first ? grace_for_others : grace);
  if (!is_first && !is_cause) {
    print_error(error.text);
  }
  end_process(1);
}

}  // namespace

bool has_nccl() noexcept { return true; }

int run_nccl_job(LaunchOptions const& options, Placement const& placement, std::function<void(Job&)> const& rank_main) {
  int const local_rank = placement.local_rank.value_or(0);
  int const gpu = device_of(local_rank, device::cuda_device_count(),
                            options.share_devices ? Sharing::allow : Sharing::refuse, visible_gpus());
  RankContext const speaker_before = this_rank();
  this_rank() = {placement.rank, placement.world, fmt::format("cuda:{}", gpu)};
  Finally const restore{[&speaker_before] { this_rank() = speaker_before; }};
  auto const recorder = std::make_shared<FlightRecorder>(placement.rank, placement.world);
  auto const session = std::make_shared<NcclSession>(rendezvous_options(options, placement, gpu), gpu, recorder);

  FlightFiles files{placement.rank, {recorder}};
  std::atomic<bool> stop{false};
  detail::JobState state;
  state.local_rank = local_rank;
  state.make_device = [gpu] { return device::make_cuda_device(gpu, device::CudaBuffers::registrable); };
  state.stop_requested = [&stop] { return stop.load(std::memory_order_relaxed); };
  state.request_stop = [&stop] { stop.store(true, std::memory_order_relaxed); };
  state.set_flight_folder = [&files](std::filesystem::path const& folder) { files.set_folder(folder); };
  SignalWatch const signals{
      {.interrupt =
           [&] {
             print_error(
                 fmt::format("rank {} asks all ranks to stop; a second SIGINT ends it at once", session->rank()));
             stop.store(true, std::memory_order_relaxed);
           },
       .terminate =
           [&] {
             files.write(session->failure().value_or("SIGTERM"));
             std::this_thread::sleep_for(grace_for_others);
           }}};
  try {
    state.communicator = make_nccl(session);
    Job job = state.job();
    rank_main(job);
    if (auto const failure = session->failure()) {
      throw PeerError{*failure};  // which rank_main kept to itself
    }
    state.communicator.reset();
    session->await_all();  // the store that tells of failures ends with rank 0
  } catch (...) {
    end_job(*session, files, describe_current_exception(), options.failure_grace);
  }
  return 0;
}

}  // namespace zeroth::comm
