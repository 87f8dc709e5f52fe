// SPDX-License-Identifier: Apache-2.0
/// The heap that holds libtorch's CPU tensors.
#pragma once
#include <atomic>
#include <cstdlib>

#ifdef __GLIBC__  // defined by the headers above
#include <malloc.h>
#endif

namespace zeroth::torch_adapter::detail {

/// The number of threads in this process that have Trainers. It is above one if ranks are threads, which share the heap
/// and libtorch's generator.
[[nodiscard]] inline std::atomic<int>& training_threads() noexcept {
  static std::atomic<int> count{0};
  return count;
}
/// Counts a Trainer that this thread has made, by 1, or destroyed, by -1.
inline void count_trainer(int change) noexcept {
  thread_local int trainers = 0;
  int const before = trainers > 0 ? 1 : 0;
  trainers += change;
  training_threads() += (trainers > 0 ? 1 : 0) - before;
}

/// Whether the environment configures malloc.
[[nodiscard]] inline bool heap_is_chosen() noexcept {
  for (char const* const name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name) != nullptr) {  // NOLINT(concurrency-mt-unsafe): only read
      return true;
    }
  }
  return false;
}

/// Called before a module is made: large values get pages of their own, which are freed once the engine has taken the
/// values over. In the heap they would leave holes, and activations would end up touching all of them. Applies to the
/// whole process.
inline void keep_values_apart() noexcept {
#ifdef __GLIBC__
  if (training_threads() == 0 && !heap_is_chosen()) {
    ::mallopt(M_MMAP_THRESHOLD, 128 << 10);  // where glibc begins, before it raises it
  }
#endif
}

/// Called once the engine has taken the values over: returns free memory to the system, and from then on keeps what is
/// freed. glibc returns memory that is freed at the end of the heap, so every pass would get its activations and
/// gradients from the system again, page by page and zeroed; that takes a tenth of the time of a small model. Peak
/// memory is unchanged. Applies to the whole process.
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
