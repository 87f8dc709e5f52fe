// SPDX-License-Identifier: Apache-2.0
/// Detects GPUs, and whether this build's kernels run on them.
#pragma once
#include <string>

namespace zeroth::device {

/// Throws SystemError if the current GPU, `ordinal`, cannot run the library's kernels. The message has its compute
/// capability and those that the kernels were built for. Loads one kernel.
void expect_kernels(int ordinal);

/// "2 of compute capability 9.0; the driver knows CUDA up to 13.0, the library was built with 12.8", for the GPUs that
/// this process sees, or the reason why there are none. Creates no context on any.
[[nodiscard]] std::string describe_gpus();

}  // namespace zeroth::device
