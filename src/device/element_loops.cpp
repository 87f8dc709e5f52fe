// SPDX-License-Identifier: Apache-2.0
#include "device/element_loops.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "device/element_arithmetic.hpp"
#include "device/rank_fold.hpp"
#include "device/square_sums.hpp"

namespace zeroth::device {
namespace {

template <class To, class From>
struct Convert {
  To* destination;
  From const* source;
  std::int64_t count;

  ZEROTH_INLINE void operator()() const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      destination[i] = convert_element<To>(source[i]);
    }
  }
};

template <class To, class From>
struct Epilogue {
  ReduceEpilogue args;

  ZEROTH_INLINE void operator()() const {
    bool const sums = args.block_sums != nullptr;
    std::int64_t const sums_begin = sums ? args.sums_begin : args.count;
    std::int64_t const sums_end = sums ? args.sums_begin + args.sums_count : args.count;
    move(0, sums_begin);
    // A block is moved, and its squares are summed while it is still in the first-level cache.
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
        destination[i] = add_element(destination[i], source[i]);
      }
    } else if (static_cast<void const*>(destination) != source) {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        destination[i] = convert_element<To>(source[i]);
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

optim::ExactSum total_of(float const* values, std::int64_t count) noexcept {
  // A value of 24 bits is shifted by up to 31, so a word has room for this many. Several lanes hide the latency of
  // stores that are loaded again.
  constexpr std::int64_t most_at_once = 256;
  constexpr std::size_t lanes = 4;
  optim::ExactSum sum;
  for (std::int64_t first = 0; first < count; first += most_at_once) {
    std::uint64_t words[lanes][exact_words] = {};
    std::int64_t const end = std::min(count, first + most_at_once);
    for (std::int64_t i = first; i < end; ++i) {
      auto const part = exact_part(values[i]);
      if (part.finite) {
        words[static_cast<std::size_t>(i) % lanes][part.word] += part.bits;
      } else {
        sum.add_nonfinite(static_cast<double>(values[i]));
      }
    }
    for (auto const& lane : words) {
      for (int word = 0; word < exact_words; ++word) {
        sum.add_at(word, lane[word]);
      }
    }
    sum.carry();
  }
  return sum;
}

}  // namespace zeroth::device
