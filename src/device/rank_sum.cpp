#include "zeroth/device/rank_sum.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/isa.hpp"

namespace zeroth::device {
namespace {

// What the sum is made in: a piece of it stays in the first-level cache while the inputs pass by.
constexpr std::int64_t piece_count = 1024;

/// What elements of type T are added in. Unsigned, so that integers wrap.
template <class T>
struct Sum {
  using type = T;
};
template <>
struct Sum<bf16> {
  using type = float;
};
template <>
struct Sum<fp16> {
  using type = float;
};

template <class T>
ZEROTH_INLINE typename Sum<T>::type load(T value) {
  if constexpr (Element<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

template <class T>
ZEROTH_INLINE T store(typename Sum<T>::type value) {
  if constexpr (Element<T>) {
    return from_float<T>(value);
  } else {
    return value;
  }
}

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
      auto sum = load(source[0][i]);
      for (int rank = 1; rank < inputs_at_once; ++rank) {
        sum = static_cast<typename Sum<T>::type>(sum + load(source[rank][i]));
      }
      destination[i] = store<T>(sum);
    }
  }

  ZEROTH_INLINE void add_one_by_one(std::int64_t begin, std::int64_t length) const {
    typename Sum<T>::type sum[piece_count];
    auto const* source = static_cast<T const*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < length; ++i) {
      sum[i] = load(source[i]);
    }
    for (int rank = 1; rank < input_count; ++rank) {
      source = static_cast<T const*>(inputs[rank]) + begin;
      for (std::int64_t i = 0; i < length; ++i) {
        sum[i] = static_cast<typename Sum<T>::type>(sum[i] + load(source[i]));
      }
    }
    for (int k = 0; k < output_count; ++k) {
      auto* destination = static_cast<T*>(outputs[k]) + begin;
      for (std::int64_t i = 0; i < length; ++i) {
        destination[i] = store<T>(sum[i]);
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
  auto const sum = [&]<class T>(std::type_identity<T>) {
    with_best_isa(RankSum<T>{outputs, output_count, inputs, input_count, first, count});
  };
  switch (dtype) {
    case Dtype::fp32: return sum(std::type_identity<float>{});
    case Dtype::bf16: return sum(std::type_identity<bf16>{});
    case Dtype::fp16: return sum(std::type_identity<fp16>{});
    case Dtype::fp64: return sum(std::type_identity<double>{});
    case Dtype::int32: return sum(std::type_identity<std::uint32_t>{});
    case Dtype::int64: return sum(std::type_identity<std::uint64_t>{});
    case Dtype::byte: return sum(std::type_identity<std::uint8_t>{});
  }
}

}  // namespace zeroth::device
