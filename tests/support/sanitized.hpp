// SPDX-License-Identifier: Apache-2.0
/// The points of a grid of bitwise comparisons that a program runs. Under a sanitizer, which looks for races and
/// invalid accesses, some points suffice. The other points call the same code with as many ranks, or more, and run only
/// in the plain build.
#pragma once
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC's names
#define ZEROTH_SANITIZED 1
#elif defined(__has_feature)  // Clang's
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ZEROTH_SANITIZED 1
#endif
#endif

namespace zeroth::testing {

#ifdef ZEROTH_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

[[nodiscard]] inline bool is_set(char const* variable) noexcept {
  return std::getenv(variable) != nullptr;  // NOLINT(concurrency-mt-unsafe): nobody sets it
}

/// Whether some points of a grid suffice: under a sanitizer, and with ZEROTH_SPARSE_GRIDS in the environment, which is
/// set for tests whose kernels run in the interpreter of PTX.
[[nodiscard]] inline bool sparse_grids() noexcept { return sanitized || is_set("ZEROTH_SPARSE_GRIDS"); }

/// Selects one point in `one_in` of a grid; `one_in` must divide none of the grid's sizes. If it is kept from one row
/// to the next, it selects other columns in each, so any two values of the grid meet. tests/jobs draws larger
/// combinations anew in every run. Selects all points if ZEROTH_FULL_GRIDS is set in the environment.
class Sample {
 public:
  explicit Sample(int one_in) noexcept : one_in_{is_set("ZEROTH_FULL_GRIDS") ? 1 : one_in} {}
  Sample(int if_sparse, int in_plain_builds) noexcept : Sample{sparse_grids() ? if_sparse : in_plain_builds} {}
  [[nodiscard]] bool leaves_out() noexcept { return next_++ % one_in_ != 0; }

 private:
  int one_in_, next_ = 0;
};

/// All of `list`, or one in `one_in`, beginning with the first, if grids are sparse.
template <class T>
[[nodiscard]] std::vector<T> sampled(std::vector<T> list, int one_in) {
  Sample sample{one_in, 1};
  std::erase_if(list, [&](T const&) { return sample.leaves_out(); });
  return list;
}

/// The world sizes to test.
inline std::vector<int> worlds(std::vector<int> const& all, std::vector<int> const& under_sanitizers) {
  return sanitized ? under_sanitizers : all;
}

}  // namespace zeroth::testing
