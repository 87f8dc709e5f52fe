#include "zeroth/optim/adamw.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "adamw_element.hpp"
#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "stochastic_rounding.hpp"

namespace zeroth::optim {
namespace {

/// Elements that are converted, updated and rounded in turn. They stay in the first-level cache, so memory still sees
/// one pass.
constexpr std::int64_t block = 512;

ZEROTH_INLINE void update_elements(AdamwFactors const& factors, float const* gradient, float* master, float* m,
                                   float* v, std::int64_t count) {
  AdamwFactors const f = factors;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    update_element(f, gradient[i], master[i], m[i], v[i]);
  }
}

/// The elements in fp32: where they are, or widened to `buffer`.
template <class T>
ZEROTH_INLINE auto widened(T* values, float* buffer, std::int64_t count) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
    return values;
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      buffer[i] = to_float(values[i]);
    }
    return buffer;
  }
}

/// One segment. P is the parameter's type, or void where the master is the parameter.
///
/// 16-bit types are converted block by block in loops of their own: one loop over several element sizes would mix
/// vectors of different lengths and run at half the speed.
template <class G, class P>
struct Update {
  AdamwFactors factors;
  float *master, *m, *v;
  G const* gradient;
  P* parameter;
  std::int64_t begin, end;

  ZEROTH_INLINE void operator()() const {
    if constexpr (std::is_same_v<G, float> && !Element<P>) {
      return update(begin, gradient + begin, end - begin);
    }
    for (std::int64_t first = begin; first < end; first += block) {
      std::int64_t const count = std::min(block, end - first);
      float wide[block];
      update(first, widened(gradient + first, wide, count), count);
      if constexpr (Element<P>) {
#pragma GCC ivdep
        for (std::int64_t i = first; i < first + count; ++i) {
          parameter[i] = from_float<P>(master[i]);
        }
      }
    }
  }

  ZEROTH_INLINE void update(std::int64_t first, float const* wide, std::int64_t count) const {
    update_elements(factors, wide, master + first, m + first, v + first, count);
  }
};

/// One segment whose masters are bf16. S is the moments' type.
template <class G, class S>
struct RoundedUpdate {
  AdamwFactors factors;
  RoundingNoise noise;
  bf16* master;
  S *m, *v;
  G const* gradient;
  AdamwSegment segment;

  ZEROTH_INLINE void operator()() const {
    float wide_gradient[block], wide_master[block], wide_m[block], wide_v[block];
    for (std::int64_t first = segment.begin; first < segment.end; first += block) {
      std::int64_t const count = std::min(block, segment.end - first);
      float* const new_master = widened(master + first, wide_master, count);
      float* const new_m = widened(m + first, wide_m, count);
      float* const new_v = widened(v + first, wide_v, count);
      update_elements(factors, widened(gradient + first, wide_gradient, count), new_master, new_m, new_v, count);
      round(Rounded::master, first, new_master, master + first, count);
      round(Rounded::m, first, new_m, m + first, count);
      round(Rounded::v, first, new_v, v + first, count);
    }
  }

  ZEROTH_INLINE void round(Rounded what, std::int64_t first, float const* wide, bf16* values,
                           std::int64_t count) const {
    constexpr std::int64_t most_groups = block / noise_lanes + 1;
    static_assert(std::endian::native == std::endian::little, "halves of words become elements in order");
    std::uint32_t words[4 * most_groups];
    std::uint16_t bits[noise_lanes * most_groups];
    auto const element = static_cast<std::uint64_t>(segment.element + (first - segment.begin));
    auto const group = element / noise_lanes;
    auto const lane = static_cast<std::int64_t>(element % noise_lanes);
    std::int64_t const groups = (lane + count + noise_lanes - 1) / noise_lanes;
    for (std::int64_t g = 0; g < groups; ++g) {
      auto const four = noise_words(noise, what, group + static_cast<std::uint64_t>(g));
      for (std::size_t k = 0; k < 4; ++k) {
        words[4 * g + static_cast<std::int64_t>(k)] = four[k];
      }
    }
    std::memcpy(bits, words, static_cast<std::size_t>(groups) * 4 * sizeof(std::uint32_t));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] = round_stochastically(wide[i], bits[lane + i]);
    }
  }
  /// fp32 is not rounded: it was updated in place.
  ZEROTH_INLINE void round(Rounded /*what*/, std::int64_t /*first*/, float const* /*wide*/, float* /*values*/,
                           std::int64_t /*count*/) const {}
};

template <class G, class P>
void update_all(AdamwArgs const& args) noexcept {
  for (auto const& segment : args.segments) {
    with_best_isa(Update<G, P>{factors_of(args.rules, *args.scalars, segment), static_cast<float*>(args.master),
                               static_cast<float*>(args.m), static_cast<float*>(args.v),
                               static_cast<G const*>(args.gradient), static_cast<P*>(args.parameter), segment.begin,
                               segment.end});
  }
}

template <class G, class S>
void update_all_rounded(AdamwArgs const& args) noexcept {
  for (auto const& segment : args.segments) {
    with_best_isa(RoundedUpdate<G, S>{factors_of(args.rules, *args.scalars, segment),
                                      noise_of(args.rules, *args.scalars), static_cast<bf16*>(args.master),
                                      static_cast<S*>(args.m), static_cast<S*>(args.v),
                                      static_cast<G const*>(args.gradient), segment});
  }
}

}  // namespace

void adamw(AdamwArgs const& args) noexcept {
  if (args.scalars->skip) {
    return;
  }
  with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    if (args.master_dtype == Dtype::bf16) {
      return args.moments_dtype == Dtype::bf16 ? update_all_rounded<G, bf16>(args) : update_all_rounded<G, float>(args);
    }
    if (args.parameter == nullptr) {
      return update_all<G, void>(args);
    }
    with_element(args.parameter_dtype, [&]<class P>(std::type_identity<P>) { update_all<G, P>(args); });
  });
}

}  // namespace zeroth::optim
