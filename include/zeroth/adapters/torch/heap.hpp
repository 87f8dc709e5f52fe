// SPDX-License-Identifier: Apache-2.0
/// The heap that libtorch's tensors for the CPU come from.
#pragma once
#include <atomic>
#include <cstdlib>

#ifdef __GLIBC__  // which the headers before say
#include <malloc.h>
#endif

namespace zeroth::torch_adapter::detail {

/// How many Trainers this process has: more than one if ranks are threads, which share heap and libtorch's generator.
[[nodiscard]] inline std::atomic<int>& trainers() noexcept {
  static std::atomic<int> count{0};
  return count;
}

/// Whether the environment says how malloc is to be.
[[nodiscard]] inline bool heap_is_chosen() noexcept {
  for (char const* const name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name) != nullptr) {  // NOLINT(concurrency-mt-unsafe): only read
      return true;
    }
  }
  return false;
}

/// While a module is made: large values have pages of their own, which go when the engine has taken them over. In the
/// heap they would leave holes, all of which activations touch in the end. For the whole process.
inline void keep_values_apart() noexcept {
#ifdef __GLIBC__
  if (trainers() == 0 && !heap_is_chosen()) {
    ::mallopt(M_MMAP_THRESHOLD, 128 << 10);  // where glibc begins, before it raises it
  }
#endif
}

/// Once it has been taken over: gives back what is free, and from then on keeps what becomes free. glibc gives memory
/// back that is freed at the end of the heap, so the activations and gradients of every pass would come from the system
/// again, page by page, zeroed, which is a tenth of the time of a small model. The peak stays what it is. For the whole
/// process.
inline void keep_heap() noexcept {
#ifdef __GLIBC__
  ::malloc_trim(0);
  if (!heap_is_chosen()) {
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
    ::mallopt(M_TRIM_THRESHOLD, -1);        // never
  }
#endif
}

}  // namespace zeroth::torch_adapter::detail
