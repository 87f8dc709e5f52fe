#include "zeroth/optim/adamw.hpp"

#include "adamw_element.hpp"
#include "core/dispatch.hpp"
#include "core/isa.hpp"

namespace zeroth::optim {
namespace {

/// One segment. P is the parameter's type, or void where the master is the parameter.
template <class G, class P>
struct Update {
  AdamwFactors factors;
  float *master, *m, *v;
  G const* gradient;
  P* parameter;
  std::int64_t begin, end;

  ZEROTH_INLINE void operator()() const {
    AdamwFactors const f = factors;
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      update_element(f, to_float(gradient[i]), master[i], m[i], v[i]);
      if constexpr (Element<P>) {
        parameter[i] = from_float<P>(master[i]);
      }
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
