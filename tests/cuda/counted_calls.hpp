// SPDX-License-Identifier: Apache-2.0
/// Counts this process's calls of CUDA runtime functions.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/fake_cuda.hpp"
#endif

namespace zeroth::testing {

using Calls = std::map<std::string, std::int64_t>;

/// By function; enqueued work counts as "launch". On GPUs only the functions that are interposed when the test is
/// linked: those that allocate, free, create, destroy, wait, query, call the host back, and launch.
#ifdef ZEROTH_ON_GPU
[[nodiscard]] Calls counted_calls();
#else
[[nodiscard]] inline Calls counted_calls() { return fake_cuda::calls(); }
#endif

/// Number of calls of one function.
[[nodiscard]] inline std::int64_t counted_calls(std::string const& function) {
  auto const calls = counted_calls();
  auto const found = calls.find(function);
  return found == calls.end() ? 0 : found->second;
}

/// The calls since `before` was counted.
[[nodiscard]] inline Calls since(Calls const& before) {
  auto now = counted_calls();
  for (auto const& [function, count] : before) {
    now[function] -= count;
  }
  std::erase_if(now, [](auto const& each) { return each.second == 0; });
  return now;
}

}  // namespace zeroth::testing
