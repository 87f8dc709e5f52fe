// SPDX-License-Identifier: Apache-2.0
/// NCCL's answers in words, and our types in NCCL's.
#pragma once
#include <nccl.h>

#include <string>

#include "device/nccl_library.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/reduce.hpp"

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

/// Elements of `dtype` as NCCL counts them: bytes are unsigned, and locations, which NCCL only moves, words of 8 bytes.
[[nodiscard]] ncclDataType_t nccl_type(Dtype dtype) noexcept;
[[nodiscard]] std::size_t nccl_count(std::int64_t count, Dtype dtype) noexcept;
/// Callers have checked supports().
[[nodiscard]] ncclRedOp_t nccl_operator(Reduce reduce) noexcept;

}  // namespace zeroth::comm
