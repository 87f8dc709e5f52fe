// SPDX-License-Identifier: Apache-2.0
/// The real NCCL: that it is loaded, its version, and its error without a GPU.
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <string>

#include "comm/nccl/nccl_link.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace

TEST_CASE("the installed NCCL is loaded and can be called") {
  CHECK_THAT(nccl().error_string(ncclInvalidUsage), Contains("invalid usage"));
}

TEST_CASE("initialisation without a GPU is a SystemError that names call and communicator") {
  if (has_gpu()) {
    WARN("skipped: there is a GPU");
    return;
  }
  FlightRecorder recorder{0, 1};
  NcclLink::Identity identity;
  identity.group.job_ranks = {0};
  identity.group.name = "world";
  NcclLink link{identity, recorder, [] { return std::nullopt; }};
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  static_cast<void>(nccl().get_unique_id(&id));
  auto const error = testing::thrown<SystemError>([&] { link.start(id, Clock::now() + std::chrono::seconds{60}); });
  CAPTURE(error);
  CHECK_THAT(error, Contains("ncclCommInitRankConfig of communicator 'world' on cuda:0"));
  CHECK(link.find_error().empty());  // nothing is left of it
}

}  // namespace zeroth::comm
