// SPDX-License-Identifier: Apache-2.0
#include "parallel/softmax_loops.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/isa.hpp"

namespace zeroth::parallel {
namespace {

/// Floats of the widest register: sums are added in as many lanes on every instruction set.
constexpr std::int64_t lanes = 16;
/// Elements whose exponentials are made before they are added up or stored.
constexpr std::int64_t at_once = 256;
static_assert(at_once % lanes == 0);

/// e^x of an x that is not positive; 0 below the least normal number, NaN of NaN. 2^n e^r, where x = n log 2 + r and
/// |r| <= log(2) / 2, and the series is truncated after r^7: the error is less than a tenth of the last place.
ZEROTH_INLINE float exponential(float x) noexcept {
  constexpr float smallest = -87.0F;
  constexpr float to_integer = 0x1.8p23F;                                  // sums with it have no fractional bits
  constexpr float log_2_high = 0x1.62e4p-1F, log_2_low = 0x1.7f7d1cp-20F;  // n times the first is exact
  float const shifted = x * 0x1.715476p0F + to_integer;
  float const n = shifted - to_integer;
  float const r = (x - n * log_2_high) - n * log_2_low;
  float series = 1.0F / 5040;
  series = series * r + 1.0F / 720;
  series = series * r + 1.0F / 120;
  series = series * r + 1.0F / 24;
  series = series * r + 1.0F / 6;
  series = series * r + 0.5F;
  series = series * r * r + r + 1;
  auto const exponent = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(to_integer);
  float const power = std::bit_cast<float>((exponent + 127U) << 23U);
  return x < smallest ? 0.0F : series * power;
}

template <class T>
struct Largest {
  T const* logits;
  std::int64_t count;
  float* result;

  ZEROTH_INLINE void operator()() const noexcept {
    float largest[lanes];
    std::fill_n(largest, lanes, -std::numeric_limits<float>::infinity());
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        float const logit = to_float(logits[i + lane]);
        largest[lane] = logit > largest[lane] ? logit : largest[lane];
      }
    }
    for (std::int64_t lane = 0; i + lane < count; ++lane) {
      float const logit = to_float(logits[i + lane]);
      largest[lane] = logit > largest[lane] ? logit : largest[lane];
    }
    *result = *std::max_element(largest, largest + lanes);
  }
};

template <class T>
struct SumOfExponentials {
  T const* logits;
  std::int64_t count;
  float largest;
  float* result;

  ZEROTH_INLINE void operator()() const noexcept {
    double sum = 0;
    for (std::int64_t first = 0; first < count; first += at_once) {
      float exponentials[at_once];
      auto const n = std::min(at_once, count - first);
      for (std::int64_t i = 0; i < n; ++i) {
        exponentials[i] = exponential(to_float(logits[first + i]) - largest);
      }
      std::fill(exponentials + n, exponentials + at_once, 0.0F);
      float in_lanes[lanes] = {};
      for (std::int64_t i = 0; i < at_once; i += lanes) {
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
          in_lanes[lane] += exponentials[i + lane];
        }
      }
      for (float const lane : in_lanes) {
        sum += static_cast<double>(lane);
      }
    }
    *result = static_cast<float>(sum);
  }
};

template <class T, class S>
struct Slopes {
  T const* logits;
  std::int64_t count;
  SoftmaxSlopes of;
  S* slopes;

  ZEROTH_INLINE void operator()() const noexcept {
    float const each = 1 / of.sum;
    for (std::int64_t first = 0; first < count; first += at_once) {
      float values[at_once];  // `slopes` may be what is read
      auto const n = std::min(at_once, count - first);
      for (std::int64_t i = 0; i < n; ++i) {
        values[i] = exponential(to_float(logits[first + i]) - of.largest) * each * of.seed;
      }
      for (std::int64_t i = 0; i < n; ++i) {
        slopes[first + i] = from_float<S>(values[i]);
      }
    }
  }
};

}  // namespace

template <Element T>
float largest_of(T const* logits, std::int64_t count) noexcept {
  float result = 0;
  with_best_isa(Largest<T>{logits, count, &result});
  return result;
}

template <Element T>
float sum_of_exponentials(T const* logits, std::int64_t count, float largest) noexcept {
  float result = 0;
  with_best_isa(SumOfExponentials<T>{logits, count, largest, &result});
  return result;
}

template <Element T, Element S>
void softmax_slopes(T const* logits, std::int64_t count, SoftmaxSlopes const& of, std::int64_t target,
                    S* slopes) noexcept {
  float const at_target = target < 0 ? 0.0F : to_float(logits[target]);
  with_best_isa(Slopes<T, S>{logits, count, of, slopes});
  if (target >= 0) {
    slopes[target] = from_float<S>((exponential(at_target - of.largest) * (1 / of.sum) - 1) * of.seed);
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type stands without
#define ZEROTH_SLOPES(T, S) \
  template void softmax_slopes<T, S>(T const*, std::int64_t, SoftmaxSlopes const&, std::int64_t, S*) noexcept;
// NOLINTEND(bugprone-macro-parentheses)
#define ZEROTH_SOFTMAX(T)                                                        \
  template float largest_of<T>(T const*, std::int64_t) noexcept;                 \
  template float sum_of_exponentials<T>(T const*, std::int64_t, float) noexcept; \
  ZEROTH_SLOPES(T, float) ZEROTH_SLOPES(T, bf16) ZEROTH_SLOPES(T, fp16)
ZEROTH_SOFTMAX(float)
ZEROTH_SOFTMAX(bf16)
ZEROTH_SOFTMAX(fp16)
#undef ZEROTH_SOFTMAX
#undef ZEROTH_SLOPES

}  // namespace zeroth::parallel
