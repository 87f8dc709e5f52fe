// SPDX-License-Identifier: Apache-2.0
/// Descriptions of NCCL's errors, and conversions to NCCL's types.
#pragma once
#include <nccl.h>

#include <array>
#include <cstddef>
#include <string>

#include "device/nccl_library.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/reduce.hpp"

namespace zeroth::comm {

using device::nccl;

/// "ncclCommSplit of communicator 'gather' on cuda:3: unhandled cuda error (NCCL's last message)". `handle` may be
/// null.
[[nodiscard]] std::string describe_nccl(char const* call, std::string const& communicator, int gpu, ncclResult_t result,
                                        ncclComm_t handle);

/// ncclInProgress is not an error: non-blocking communicators return it.
[[nodiscard]] constexpr bool is_error(ncclResult_t result) noexcept {
  return result != ncclSuccess && result != ncclInProgress;
}

/// The NCCL type of elements of `dtype`: bytes are unsigned, and locations, which NCCL only moves, are words of 8
/// bytes.
[[nodiscard]] ncclDataType_t nccl_type(Dtype dtype) noexcept;
[[nodiscard]] std::size_t nccl_count(std::int64_t count, Dtype dtype) noexcept;
/// For operators without a factor. Callers have checked supports().
[[nodiscard]] ncclRedOp_t nccl_operator(Reduce reduce) noexcept;
/// `factor` in memory as an element of the floating type `dtype`, rounded to it.
[[nodiscard]] std::array<std::byte, sizeof(double)> nccl_scalar(double factor, Dtype dtype) noexcept;

}  // namespace zeroth::comm
