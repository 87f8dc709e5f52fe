// SPDX-License-Identifier: Apache-2.0
/// Counts allocations by operator new. For programs that are built with support/allocations.cpp.
#pragma once
#include <cstdint>

namespace zeroth::test {

/// Allocations on all threads since the program began.
[[nodiscard]] std::int64_t allocation_count() noexcept;

}  // namespace zeroth::test
