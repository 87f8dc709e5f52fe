/// NCCL's answers in words, and our types in NCCL's.
#pragma once
#include <nccl.h>

#include <string>

#include "device/nccl_library.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::comm {

using device::nccl;

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
