// SPDX-License-Identifier: Apache-2.0
/// The container of kernels' texts in nvcc's objects.
#pragma once
#include <string>

namespace zeroth::testing::ptx {

/// The PTX for `architecture` ("sm_80") in the fat binary that `wrapper` points to, as passed to
/// __cudaRegisterFatBinary. It must not be compressed: nvcc -Xfatbin -compress=false. Throws std::runtime_error if it
/// is no fat binary or has no such PTX.
[[nodiscard]] std::string module_of(void const* wrapper, std::string const& architecture);

}  // namespace zeroth::testing::ptx
