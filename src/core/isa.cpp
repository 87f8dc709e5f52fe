// SPDX-License-Identifier: Apache-2.0
#include "core/isa_choice.hpp"

#include <atomic>

namespace zeroth {
namespace {

Isa find_best() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return Isa::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return Isa::avx2;
  }
#endif
  return Isa::plain;
}

std::atomic<Isa>& current() noexcept {
  static std::atomic<Isa> isa{find_best()};
  return isa;
}

}  // namespace

Isa best_isa() noexcept {
  static Isa const isa = find_best();
  return isa;
}

Isa current_isa() noexcept { return current().load(std::memory_order_relaxed); }

void choose_isa(Isa isa) noexcept { current().store(isa, std::memory_order_relaxed); }

}  // namespace zeroth
