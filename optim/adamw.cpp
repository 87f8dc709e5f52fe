#include "zeroth/optim/adamw.hpp"

#include <algorithm>
#include <type_traits>

#include "adamw_element.hpp"
#include "core/dispatch.hpp"
#include "core/isa.hpp"

namespace zeroth::optim {
namespace {

/// One segment. P is the parameter's type, or void where the master is the parameter.
///
/// 16-bit types are converted block by block in loops of their own: one loop over several element sizes would mix
/// vectors of different lengths and run at half the speed. A block stays in the first-level cache, so memory still sees
/// one pass.
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
    constexpr std::int64_t block = 512;
    for (std::int64_t first = begin; first < end; first += block) {
      std::int64_t const count = std::min(block, end - first);
      if constexpr (std::is_same_v<G, float>) {
        update(first, gradient + first, count);
      } else {
        float wide[block];
        for (std::int64_t i = 0; i < count; ++i) {
          wide[i] = to_float(gradient[first + i]);
        }
        update(first, wide, count);
      }
      if constexpr (Element<P>) {
#pragma GCC ivdep
        for (std::int64_t i = first; i < first + count; ++i) {
          parameter[i] = from_float<P>(master[i]);
        }
      }
    }
  }

  ZEROTH_INLINE void update(std::int64_t first, float const* wide, std::int64_t count) const {
    AdamwFactors const f = factors;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      update_element(f, wide[i], master[first + i], m[first + i], v[first + i]);
    }
  }
};

template <class G, class P>
void update_all(AdamwArgs const& args) noexcept {
  for (auto const& segment : args.segments) {
    with_best_isa(Update<G, P>{factors_of(args.rules, *args.scalars, segment), args.master, args.m, args.v,
                               static_cast<G const*>(args.gradient), static_cast<P*>(args.parameter), segment.begin,
                               segment.end});
  }
}

}  // namespace

void adamw(AdamwArgs const& args) noexcept {
  if (args.scalars->skip) {
    return;
  }
  with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    if (args.parameter == nullptr) {
      return update_all<G, void>(args);
    }
    with_element(args.parameter_dtype, [&]<class P>(std::type_identity<P>) { update_all<G, P>(args); });
  });
}

}  // namespace zeroth::optim
