// SPDX-License-Identifier: Apache-2.0
/// One source, compiled for several instruction sets, chosen when it runs.
#pragma once
#include <cstdint>

/// For everything that a loop under with_best_isa() calls: a function that is not inlined keeps its own, plain target.
#define ZEROTH_INLINE [[gnu::always_inline]] inline

namespace zeroth {

enum class Isa : std::uint8_t { plain, avx2, avx512 };

/// The best that this processor has, found once.
[[nodiscard]] Isa best_isa() noexcept;
/// What with_best_isa() uses: best_isa(), unless core/isa_choice.hpp says otherwise.
[[nodiscard]] Isa current_isa() noexcept;

namespace detail {

template <class Body>
void run_plain(Body const& body) {
  body();
}

#if defined(__x86_64__)
// No fma here: contraction is off, so nothing could use it, and it should stay that way.
template <class Body>
[[gnu::target("avx2")]] void run_avx2(Body const& body) {
  body();
}
#if defined(__clang__)  // which has no such target attribute for the width that it prefers
#define ZEROTH_AVX512 "avx512f,avx512bw,avx512vl,avx512dq"
#else
#define ZEROTH_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"
#endif
template <class Body>
[[gnu::target(ZEROTH_AVX512)]] void run_avx512(Body const& body) {
  body();
}
#undef ZEROTH_AVX512
#endif

}  // namespace detail

/// Calls `body`, whose operator() is ZEROTH_INLINE, as compiled for current_isa(). Attributes on functions instead of
/// flags on files: an inline function that another file shares can then never leak instructions the machine lacks.
template <class Body>
void with_best_isa(Body const& body) {
#if defined(__x86_64__)
  switch (current_isa()) {
    case Isa::avx512: return detail::run_avx512(body);
    case Isa::avx2: return detail::run_avx2(body);
    case Isa::plain: break;
  }
#endif
  detail::run_plain(body);
}

}  // namespace zeroth
