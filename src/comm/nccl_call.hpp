/// NCCL's answers in words, and our types in NCCL's.
#pragma once
#include <nccl.h>

#include <string>

#include "zeroth/core/dtype.hpp"

namespace zeroth::comm {

/// Of which this code uses windows, communicator names and CTA policies.
inline constexpr int oldest_nccl = 22800;
static_assert(NCCL_VERSION_CODE >= oldest_nccl,
              "Zeroth needs NCCL 2.28.0 or newer, and this nccl.h is older: set ZEROTH_NCCL_INCLUDE and "
              "ZEROTH_NCCL_LIBRARY to a newer one, or configure without NCCL");

/// Throws SystemError, with both versions, where the libnccl that this process runs on is older than the code needs.
void expect_nccl();

/// "ncclCommSplit of communicator 'gather' on cuda:3: unhandled cuda error (what NCCL said last)". `handle` may be
/// null.
[[nodiscard]] std::string describe_nccl(char const* call, std::string const& communicator, int gpu, ncclResult_t result,
                                        ncclComm_t handle);

/// "Under way" is an answer of communicators that do not block, and no error.
[[nodiscard]] constexpr bool is_error(ncclResult_t result) noexcept {
  return result != ncclSuccess && result != ncclInProgress;
}

/// Of a sum in `dtype`: bytes count as unsigned.
[[nodiscard]] ncclDataType_t nccl_type(Dtype dtype) noexcept;

}  // namespace zeroth::comm
