// SPDX-License-Identifier: Apache-2.0
/// One source, compiled for several instruction sets. The best one is chosen at run time.
#pragma once
#include <cstdint>

/// For every function that a loop under with_best_isa() calls. A function that is not inlined keeps its own, plain
/// target.
#define ZEROTH_INLINE [[gnu::always_inline]] inline

namespace zeroth {

enum class Isa : std::uint8_t { plain, avx2, avx512 };

/// The best instruction set of this processor, detected once.
[[nodiscard]] Isa best_isa() noexcept;
/// The one that with_best_isa() uses: best_isa(), unless core/isa_choice.hpp has changed it.
[[nodiscard]] Isa current_isa() noexcept;

namespace detail {

template <class Body>
void run_plain(Body const& body) {
  body();
}

#if defined(__x86_64__)
// Contraction is off where fma would change bits.
template <class Body>
[[gnu::target("avx2,fma")]] void run_avx2(Body const& body) {
  body();
}
#if defined(__clang__)  // which has no target attribute for the preferred width
#define ZEROTH_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,fma"
#else
#define ZEROTH_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512"
#endif
template <class Body>
[[gnu::target(ZEROTH_AVX512)]] void run_avx512(Body const& body) {
  body();
}
#undef ZEROTH_AVX512
#endif

}  // namespace detail

/// Calls `body`, whose operator() is ZEROTH_INLINE, as compiled for current_isa(). Functions have target attributes,
/// files have no flags: otherwise an inline function shared with another file could leak instructions that the machine
/// lacks.
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
