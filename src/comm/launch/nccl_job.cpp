// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/nccl_job.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/finally.hpp"
#include "comm/launch/job_state.hpp"
#include "comm/launch/placing.hpp"
#include "comm/launch/process_end.hpp"
#include "comm/launch/rank_process.hpp"
#include "comm/launch/store_address.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/nccl/nccl_session.hpp"
#include "comm/rank_error.hpp"
#include "device/cuda_call.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::comm {
namespace {

std::string visible_gpus() {
  char const* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  return text == nullptr ? std::string{} : fmt::format("CUDA_VISIBLE_DEVICES={}", text);
}

/// A name that is unique among the GPUs of this machine.
std::string bus_id_of(int gpu) {
  std::array<char, 32> text{};
  auto const error = cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu);
  if (error != cudaSuccess) {
    throw SystemError{device::describe_call("cudaDeviceGetPCIBusId", gpu, error)};
  }
  return text.data();
}

RendezvousOptions rendezvous_options(LaunchOptions const& options, LaunchedRank const& launched) {
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  return {.at = find_store_address(variable, launched, this_program()),
          .rank = launched.rank,
          .world = launched.world,
          .join_timeout = options.join_timeout};
}

/// Returns the GPU of this rank. If it has none, stores the reason in `rendezvous`, for all ranks.
int choose_gpu(LaunchedRank const& launched, RendezvousOptions& rendezvous) {
  try {
    int const gpu = device_of(launched, device::cuda_device_count(), visible_gpus(), device::why_no_gpu());
    rendezvous.device = bus_id_of(gpu);
    return gpu;
  } catch (...) {
    rendezvous.problem = describe_current_exception().bare;
    return 0;
  }
}

/// The failure in the store; or this rank's own, if the store could not be told.
std::optional<JobFailure> failure_of(NcclSession& session) {
  if (auto failure = session.rendezvous().store().failure()) {
    return failure;
  }
  auto const reason = session.failure();
  return reason ? std::optional{JobFailure{session.rank(), *reason}} : std::nullopt;
}

}  // namespace

int run_nccl_job(LaunchOptions const& options, LaunchedRank const& launched,
                 std::function<void(Job&)> const& rank_main) {
  auto rendezvous = rendezvous_options(options, launched);
  int const gpu = choose_gpu(launched, rendezvous);
  RankContext const speaker_before = this_rank();
  this_rank() = {launched.rank, launched.world, fmt::format("cuda:{}", gpu)};
  Finally const restore{[&speaker_before] { this_rank() = speaker_before; }};
  auto const recorder = std::make_shared<FlightRecorder>(launched.rank, launched.world);
  auto const session = std::make_shared<NcclSession>(std::move(rendezvous), gpu, recorder);

  detail::JobState state;
  state.local_rank = launched.local_rank.value_or(gpu);
  state.make_device = [gpu] { return device::make_cuda_device(gpu, device::CudaBuffers::registrable); };
  run_rank({.rank = launched.rank,
            .recorder = recorder,
            .make_communicator =
                [&] {
                  auto communicator = make_nccl(session, {.timeout = options.join_timeout});
                  communicator->set_options({});
                  return communicator;
                },
            .after_all = [&session] { session->await_all(); },  // the store that reports failures ends with rank 0
            .fail = [&session](std::string const& reason) { session->fail(reason); },
            .failure = [&session] { return failure_of(*session); },
            .end_process = [](int status) { end_process(status); }},
           state, rank_main, options);
  return 0;
}

}  // namespace zeroth::comm
