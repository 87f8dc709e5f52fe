#include "zeroth/device/rank_sum.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/isa.hpp"
#include "device/element_arithmetic.hpp"

namespace zeroth::device {
namespace {

// What the sum is made in: a piece of it stays in the first-level cache while the inputs pass by.
constexpr std::int64_t piece_count = 1024;

template <class T>
struct RankSum {
  void* const* outputs;
  int output_count;
  void const* const* inputs;
  int input_count;
  std::int64_t first, count;

  ZEROTH_INLINE void operator()() const {
    for (std::int64_t begin = first; begin < first + count; begin += piece_count) {
      piece(begin, std::min(piece_count, first + count - begin));
    }
  }

  ZEROTH_INLINE void piece(std::int64_t begin, std::int64_t length) const {
    switch (input_count) {
      case 2: add_to_first<2>(begin, length); break;
      case 3: add_to_first<3>(begin, length); break;
      case 4: add_to_first<4>(begin, length); break;
      default: return add_one_by_one(begin, length);
    }
    auto const* sum = static_cast<T const*>(outputs[0]) + begin;
    for (int k = 1; k < output_count; ++k) {
      std::memcpy(static_cast<T*>(outputs[k]) + begin, sum, static_cast<std::size_t>(length) * sizeof(T));
    }
  }

  /// Few inputs: the sum stays in registers.
  template <int inputs_at_once>
  ZEROTH_INLINE void add_to_first(std::int64_t begin, std::int64_t length) const {
    T const* source[inputs_at_once];
    for (int rank = 0; rank < inputs_at_once; ++rank) {
      source[rank] = static_cast<T const*>(inputs[rank]) + begin;
    }
    auto* destination = static_cast<T*>(outputs[0]) + begin;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i) {
      auto sum = widen_for_sum(source[0][i]);
      for (int rank = 1; rank < inputs_at_once; ++rank) {
        sum = add_rank(sum, source[rank][i]);
      }
      destination[i] = round_sum<T>(sum);
    }
  }

  ZEROTH_INLINE void add_one_by_one(std::int64_t begin, std::int64_t length) const {
    RankSumOf<T> sum[piece_count];
    auto const* source = static_cast<T const*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < length; ++i) {
      sum[i] = widen_for_sum(source[i]);
    }
    for (int rank = 1; rank < input_count; ++rank) {
      source = static_cast<T const*>(inputs[rank]) + begin;
      for (std::int64_t i = 0; i < length; ++i) {
        sum[i] = add_rank(sum[i], source[i]);
      }
    }
    for (int k = 0; k < output_count; ++k) {
      auto* destination = static_cast<T*>(outputs[k]) + begin;
      for (std::int64_t i = 0; i < length; ++i) {
        destination[i] = round_sum<T>(sum[i]);
      }
    }
  }
};

}  // namespace

void rank_sum(void* const* outputs, int output_count, void const* const* inputs, int input_count, Dtype dtype,
              std::int64_t first, std::int64_t count) noexcept {
  if (output_count == 0) {
    return;
  }
  with_summand(dtype, [&]<class T>(std::type_identity<T>) {
    with_best_isa(RankSum<T>{outputs, output_count, inputs, input_count, first, count});
  });
}

}  // namespace zeroth::device
