// SPDX-License-Identifier: Apache-2.0
/// Which GPUs there are, and whether this build's kernels run on them.
#pragma once

namespace zeroth::device {

/// Throws SystemError where the current GPU, `ordinal`, cannot run the library's kernels: with its compute capability,
/// and those that the kernels were built for. Loads one of them.
void expect_kernels(int ordinal);

}  // namespace zeroth::device
