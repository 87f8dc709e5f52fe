// SPDX-License-Identifier: Apache-2.0
/// Which GPUs there are, and whether this build's kernels run on them.
#pragma once
#include <string>

namespace zeroth::device {

/// Throws SystemError where the current GPU, `ordinal`, cannot run the library's kernels: with its compute capability,
/// and those that the kernels were built for. Loads one of them.
void expect_kernels(int ordinal);

/// "2 of compute capability 9.0; the driver knows CUDA up to 13.0, the library was built with 12.8", of those that this
/// process sees, or why there are none. Makes no context on any.
[[nodiscard]] std::string describe_gpus();

}  // namespace zeroth::device
