// SPDX-License-Identifier: Apache-2.0
/// What nvcc puts the texts of kernels into.
#pragma once
#include <string>
#include <vector>

namespace zeroth::testing::ptx {

/// The PTX modules of the fat binary that `wrapper` points to, as __cudaRegisterFatBinary is given it. They must not be
/// compressed: nvcc -Xfatbin -compress=false. Throws std::runtime_error if it is no fat binary or has none.
[[nodiscard]] std::vector<std::string> modules_of(void const* wrapper);

}  // namespace zeroth::testing::ptx
