// SPDX-License-Identifier: Apache-2.0
#include "few_threads.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> threads_to_be_had{1'000'000};

}  // namespace

/// Replaces the system's function.
extern "C" int pthread_create(pthread_t* thread, pthread_attr_t const* attributes, void* (*start)(void*), void* data) {
  using Create = int (*)(pthread_t*, pthread_attr_t const*, void* (*)(void*), void*);
  static auto const create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return threads_to_be_had.fetch_sub(1) > 0 ? create(thread, attributes, start, data) : EAGAIN;
}

namespace zeroth::testing {

void leave_threads(int count) noexcept { threads_to_be_had = count; }

}  // namespace zeroth::testing
