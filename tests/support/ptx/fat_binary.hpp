// SPDX-License-Identifier: Apache-2.0
/// The container of kernels' texts in nvcc's objects.
#pragma once
#include <string>
#include <vector>

namespace zeroth::testing::ptx {

/// The PTX modules of the fat binary that `wrapper` points to, as passed to __cudaRegisterFatBinary. They must not be
/// compressed: nvcc -Xfatbin -compress=false. Throws std::runtime_error if it is no fat binary or has no PTX.
[[nodiscard]] std::vector<std::string> modules_of(void const* wrapper);

}  // namespace zeroth::testing::ptx
