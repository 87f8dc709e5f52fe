// SPDX-License-Identifier: Apache-2.0
/// Linked into tests with the label one_thread, which ThreadSanitizer skips, as there is no race without a second
/// thread. It replaces pthread_create, and ends a program that calls it.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t* /*thread*/, pthread_attr_t const* /*attributes*/, void* (* /*routine*/)(void*),
                              void* /*argument*/) noexcept {
  std::fputs("a thread was started in a test with the label one_thread: take the label away\n", stderr);
  std::abort();
}
