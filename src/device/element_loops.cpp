#include "device/element_loops.hpp"

#include <algorithm>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "zeroth/device/rank_sum.hpp"

namespace zeroth::device {
namespace {

/// A plain assignment where the types are the same: compilers do not see that widening and rounding cancel out.
template <class To, class From>
ZEROTH_INLINE To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return from_float<To>(to_float(value));
  }
}

template <class To, class From>
struct Convert {
  To* destination;
  From const* source;
  std::int64_t count;

  ZEROTH_INLINE void operator()() const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      destination[i] = convert<To>(source[i]);
    }
  }
};

/// Lanes of a block's sum of squares: lane l adds the elements l, l + lanes, l + 2 lanes, ... of the block in that
/// order. Then lane l takes lane l + lanes / 2, and so on: one tree on every instruction set.
constexpr std::int64_t lanes = 32;
static_assert(sum_block_count % lanes == 0);

template <class T>
ZEROTH_INLINE float sum_of_squares(T const* block, std::int64_t count) {
  float sum[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      float const value = to_float(block[i + lane]);
      sum[lane] += value * value;
    }
  }
  for (std::int64_t lane = 0; i + lane < count; ++lane) {
    float const value = to_float(block[i + lane]);
    sum[lane] += value * value;
  }
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) {
      sum[lane] += sum[lane + half];
    }
  }
  return sum[0];
}

template <class To, class From>
struct Epilogue {
  ReduceEpilogue args;

  ZEROTH_INLINE void operator()() const {
    bool const sums = args.block_sums != nullptr;
    std::int64_t const sums_begin = sums ? args.sums_begin : args.count;
    std::int64_t const sums_end = sums ? args.sums_begin + args.sums_count : args.count;
    move(0, sums_begin);
    // A block is moved, and squared while it is still in the first-level cache.
    for (std::int64_t begin = sums_begin, block = 0; begin < sums_end; begin += sum_block_count, ++block) {
      std::int64_t const end = std::min(begin + sum_block_count, sums_end);
      move(begin, end);
      args.block_sums[block] = sum_of_squares(static_cast<To const*>(args.destination) + begin, end - begin);
    }
    move(sums_end, args.count);
  }

  ZEROTH_INLINE void move(std::int64_t begin, std::int64_t end) const {
    auto* const destination = static_cast<To*>(args.destination);
    auto const* const source = static_cast<From const*>(args.source);
    if (args.accumulate) {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        destination[i] = from_float<To>(to_float(destination[i]) + to_float(source[i]));
      }
    } else if (static_cast<void const*>(destination) != source) {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        destination[i] = convert<To>(source[i]);
      }
    }
  }
};

}  // namespace

void convert_elements(void* destination, Dtype destination_dtype, void const* source, Dtype source_dtype,
                      std::int64_t count) noexcept {
  if (destination_dtype == source_dtype) {
    return copy_bytes(destination, source, count * bytes_of(source_dtype));
  }
  with_element(destination_dtype, [&]<class To>(std::type_identity<To>) {
    with_element(source_dtype, [&]<class From>(std::type_identity<From>) {
      with_best_isa(Convert<To, From>{static_cast<To*>(destination), static_cast<From const*>(source), count});
    });
  });
}

void reduce_epilogue(ReduceEpilogue const& args) noexcept {
  with_element(args.destination_dtype, [&]<class To>(std::type_identity<To>) {
    with_element(args.source_dtype,
                 [&]<class From>(std::type_identity<From>) { with_best_isa(Epilogue<To, From>{args}); });
  });
}

}  // namespace zeroth::device
