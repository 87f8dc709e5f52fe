// SPDX-License-Identifier: Apache-2.0
/// Whether a sanitizer is in this program. It looks for races and wrong accesses, of which a grid of bits has no more
/// than some of its points: those that call the same code with as many ranks, or more, are left to the plain build.
#pragma once
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

/// Of a grid all points, and under a sanitizer one in `one_in`, a number that divides none of the grid's own: kept from
/// one row to the next, it goes through other columns of each.
class Sample {
 public:
  explicit constexpr Sample(int one_in) noexcept : one_in_{one_in} {}
  [[nodiscard]] bool leaves_out() noexcept { return sanitized && next_++ % one_in_ != 0; }

 private:
  int one_in_, next_ = 0;
};

/// All of `list`, and under a sanitizer one in `one_in`, beginning with the first.
template <class T>
[[nodiscard]] std::vector<T> sampled(std::vector<T> list, int one_in) {
  Sample sample{one_in};
  std::erase_if(list, [&](T const&) { return sample.leaves_out(); });
  return list;
}

/// Numbers of ranks to go through.
inline std::vector<int> worlds(std::vector<int> const& all, std::vector<int> const& under_sanitizers) {
  return sanitized ? under_sanitizers : all;
}

}  // namespace zeroth::testing
