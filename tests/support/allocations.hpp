// SPDX-License-Identifier: Apache-2.0
/// Counts what operator new hands out. For programs that are built with support/allocations.cpp.
#pragma once
#include <cstdint>

namespace zeroth::test {

/// On all threads, since the program began.
[[nodiscard]] std::int64_t allocation_count() noexcept;

}  // namespace zeroth::test
