// SPDX-License-Identifier: Apache-2.0
/// Whether a sanitizer is in this program. It looks for races and wrong accesses, of which a grid of bits has no more
/// than some of its points: those that call the same code with as many ranks, or more, are left to the plain build.
#pragma once
#include <vector>

namespace zeroth::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Numbers of ranks to go through.
inline std::vector<int> worlds(std::vector<int> const& all, std::vector<int> const& under_sanitizers) {
  return sanitized ? under_sanitizers : all;
}

}  // namespace zeroth::testing
