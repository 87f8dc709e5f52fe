// SPDX-License-Identifier: Apache-2.0
/// The heap that libtorch's tensors for the CPU come from.
#pragma once
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdlib>

namespace zeroth::torch_adapter::detail {

/// Gives back what is free, once, and from now on keeps what becomes free. glibc gives memory back that is freed at the
/// end of the heap, and tensors of more than 128 KiB have memory of their own at first: so the activations and gradients
/// of every pass would come from the system again, page by page, zeroed, which is a tenth of the time of a small model.
/// The peak stays what it is. For the whole process, and not where the environment says how malloc is to be.
inline void keep_heap() noexcept {
#ifdef __GLIBC__
  ::malloc_trim(0);
  constexpr int largest_of_heap = 32 << 20;  // glibc's limit
  constexpr int never = -1;
  for (char const* const name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name) != nullptr) {  // NOLINT(concurrency-mt-unsafe): only read
      return;
    }
  }
  ::mallopt(M_MMAP_THRESHOLD, largest_of_heap);
  ::mallopt(M_TRIM_THRESHOLD, never);
#endif
}

}  // namespace zeroth::torch_adapter::detail
