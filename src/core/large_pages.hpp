// SPDX-License-Identifier: Apache-2.0
/// Memory in large pages where the system has them: requests to a disk from there are not cut up, and page tables are
/// read less often.
#pragma once
#include <cstddef>
#include <span>

namespace zeroth {

/// A wish, for memory that will all be touched: its first touch takes whole large pages (2 MiB on x86). Costs nothing,
/// and cannot fail: a system without them goes on as before.
void prefer_large_pages(std::span<std::byte> memory) noexcept;

}  // namespace zeroth
