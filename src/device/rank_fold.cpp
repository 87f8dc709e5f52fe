// SPDX-License-Identifier: Apache-2.0
#include "device/rank_fold.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "device/fold_arithmetic.hpp"

namespace zeroth::device {
namespace {

// The size of a piece of the result. It stays in the first-level cache while all inputs are added to it.
constexpr std::int64_t piece_count = 1024;

template <class Operator>
struct RankFold {
  using T = typename Operator::Type;

  Operator by;
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
    if constexpr (Operator::reduce == Reduce::sum ||
                  Operator::reduce == Reduce::premul_sum) {  // gradients wait for sums, so they have special code
      switch (input_count) {
        case 2: return fold_at_once<2>(begin, length);
        case 3: return fold_at_once<3>(begin, length);
        case 4: return fold_at_once<4>(begin, length);
        default: break;
      }
    }
    fold_one_by_one(begin, length);
  }

  /// For few inputs: the result stays in registers.
  template <std::size_t inputs_at_once>
  ZEROTH_INLINE void fold_at_once(std::int64_t begin, std::int64_t length) const {
    Operator const op = by;  // so that it cannot change with what is stored
    T const* source[inputs_at_once];
    for (std::size_t rank = 0; rank < inputs_at_once; ++rank) {
      source[rank] = static_cast<T const*>(inputs[rank]) + begin;
    }
    auto* destination = static_cast<T*>(outputs[0]) + begin;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i) {
      auto result = op.begin(source[0][i]);
      for (std::size_t rank = 1; rank < inputs_at_once; ++rank) {
        result = op.add(result, source[rank][i]);
      }
      destination[i] = op.end(result, static_cast<int>(inputs_at_once));
    }
    for (int k = 1; k < output_count; ++k) {
      std::memcpy(static_cast<T*>(outputs[k]) + begin, destination, static_cast<std::size_t>(length) * sizeof(T));
    }
  }

  ZEROTH_INLINE void fold_one_by_one(std::int64_t begin, std::int64_t length) const {
    Operator const op = by;
    typename Operator::Wide result[piece_count];
    auto const* source = static_cast<T const*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < length; ++i) {
      result[i] = op.begin(source[i]);
    }
    for (int rank = 1; rank < input_count; ++rank) {
      source = static_cast<T const*>(inputs[rank]) + begin;
      for (std::int64_t i = 0; i < length; ++i) {
        result[i] = op.add(result[i], source[i]);
      }
    }
    for (int k = 0; k < output_count; ++k) {
      auto* destination = static_cast<T*>(outputs[k]) + begin;
      for (std::int64_t i = 0; i < length; ++i) {
        destination[i] = op.end(result[i], input_count);
      }
    }
  }
};

/// A piece of the sums stays in the first-level cache while all inputs are added to it.
template <class T>
struct RankFoldInto {
  float* sums;
  bool accumulate;
  void const* const* inputs;
  int input_count;
  std::int64_t count;

  ZEROTH_INLINE void operator()() const {
    for (std::int64_t begin = 0; begin < count; begin += piece_count) {
      std::int64_t const length = std::min(piece_count, count - begin);
      for (int rank = 0; rank < input_count; ++rank) {
        add(sums + begin, static_cast<T const*>(inputs[rank]) + begin, length, accumulate || rank > 0);
      }
    }
  }

  ZEROTH_INLINE static void add(float* destination, T const* source, std::int64_t length, bool to_what_is_there) {
    if (to_what_is_there) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < length; ++i) {
        destination[i] += to_float(source[i]);
      }
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < length; ++i) {
        destination[i] = to_float(source[i]);
      }
    }
  }
};

}  // namespace

void rank_fold_into(float* sums, bool accumulate, void const* const* inputs, int input_count, Dtype dtype,
                    std::int64_t count) noexcept {
  with_element(dtype, [&]<class T>(std::type_identity<T>) {
    with_best_isa(RankFoldInto<T>{sums, accumulate, inputs, input_count, count});
  });
}

void rank_fold(Reduce reduce, void* const* outputs, int output_count, void const* const* inputs, int input_count,
               Dtype dtype, std::int64_t first, std::int64_t count, double factor) noexcept {
  if (output_count == 0) {
    return;
  }
  with_fold(reduce, factor, dtype, [&]<class Operator>(Operator by) {
    with_best_isa(RankFold<Operator>{by, outputs, output_count, inputs, input_count, first, count});
  });
}

}  // namespace zeroth::device
