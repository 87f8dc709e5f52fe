// SPDX-License-Identifier: Apache-2.0
#include "device/rank_fold.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/isa.hpp"

namespace zeroth::device {
namespace {

using testing::Numbers;
using testing::random_values;

template <class T>
struct Type;
template <>
struct Type<float> {
  static constexpr Dtype dtype = Dtype::fp32;
};
template <>
struct Type<bf16> {
  static constexpr Dtype dtype = Dtype::bf16;
};
template <>
struct Type<fp16> {
  static constexpr Dtype dtype = Dtype::fp16;
};
template <>
struct Type<double> {
  static constexpr Dtype dtype = Dtype::fp64;
};
template <>
struct Type<std::int32_t> {
  static constexpr Dtype dtype = Dtype::int32;
};
template <>
struct Type<std::int64_t> {
  static constexpr Dtype dtype = Dtype::int64;
};
template <>
struct Type<std::uint8_t> {
  static constexpr Dtype dtype = Dtype::byte;
};

/// Adds in rank order: 16-bit types in fp32, rounded once; integers modulo their range.
template <class T>
T sum_in_order(std::vector<std::vector<T>> const& inputs, std::size_t i) {
  if constexpr (Element<T>) {
    float sum = to_float(inputs[0][i]);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum = sum + to_float(inputs[rank][i]);
    }
    return from_float<T>(sum);
  } else if constexpr (std::is_same_v<T, double>) {
    double sum = inputs[0][i];
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum = sum + inputs[rank][i];
    }
    return sum;
  } else {
    std::uint64_t sum = 0;
    for (auto const& input : inputs) {
      sum += static_cast<std::uint64_t>(input[i]);
    }
    return static_cast<T>(sum);
  }
}

template <class T>
bool same(T a, T b) {
  if constexpr (Element<T>) {
    return testing::same_number(a, b);
  } else {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  }
}

/// Elements that end at the end of mapped memory: an access after them raises SIGSEGV.
template <class T>
class AtTheEnd {
 public:
  explicit AtTheEnd(std::size_t count) {
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (count * sizeof(T) + page - 1) / page * page + page;
    begin_ = static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(begin_ != MAP_FAILED);
    REQUIRE(mprotect(begin_ + bytes_ - page, page, PROT_NONE) == 0);
    data_ = reinterpret_cast<T*>(begin_ + bytes_ - page) - count;
  }
  AtTheEnd(AtTheEnd const&) = delete;
  AtTheEnd& operator=(AtTheEnd const&) = delete;
  ~AtTheEnd() { munmap(begin_, bytes_); }
  [[nodiscard]] T* data() const noexcept { return data_; }

 private:
  std::byte* begin_;
  std::size_t bytes_;
  T* data_;
};

TEMPLATE_TEST_CASE("nothing is read or written after the last element", "", float, bf16, double, std::uint8_t) {
  using T = TestType;
  constexpr std::size_t most_ranks = 5;
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    for (std::size_t const count : {1U, 31U, 1024U, 1025U, 2048U}) {
      std::deque<AtTheEnd<T>> memory;
      std::vector<void const*> inputs;
      for (std::size_t rank = 0; rank < most_ranks; ++rank) {
        inputs.push_back(memory.emplace_back(count).data());
      }
      std::vector<void*> const outputs{memory.emplace_back(count).data(), memory.emplace_back(count).data()};
      for (int ranks = 1; ranks <= static_cast<int>(most_ranks); ++ranks) {
        rank_fold(Reduce::sum, outputs.data(), 2, inputs.data(), ranks, Type<T>::dtype, 0,
                  static_cast<std::int64_t>(count));
        CHECK(same(static_cast<T const*>(outputs[1])[count - 1], T{}));  // a sum of zeros
      }
    }
  }
}

TEMPLATE_TEST_CASE("premul_sum adds products in rank order, with the same bits on every instruction set", "", float,
                   bf16, double) {
  using T = TestType;
  constexpr std::size_t length = 3001;
  constexpr double factor = 0.3;
  for (int const ranks : {1, 2, 3, 4, 7}) {
    std::vector<std::vector<T>> inputs;
    std::vector<void const*> from;
    for (int rank = 0; rank < ranks; ++rank) {
      inputs.push_back(random_values<T>(length, static_cast<std::uint32_t>(rank), Numbers::ordinary));
    }
    for (auto const& input : inputs) {
      from.push_back(input.data());
    }
    for (Isa const isa : testing::all_isas()) {
      testing::WithIsa const with{isa};
      std::vector<T> result(length);
      void* const output = result.data();
      rank_fold(Reduce::premul_sum, &output, 1, from.data(), ranks, Type<T>::dtype, 0, length, factor);
      int wrong = 0;
      for (std::size_t i = 0; i < length; ++i) {
        using Wide = std::conditional_t<Element<T>, float, T>;
        Wide sum{};
        for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
          Wide wide{};
          if constexpr (Element<T>) {
            wide = to_float(inputs[rank][i]);
          } else {
            wide = inputs[rank][i];
          }
          Wide const product = wide * static_cast<Wide>(factor);
          sum = rank == 0 ? product : sum + product;
        }
        if constexpr (Element<T>) {
          wrong += same(result[i], from_float<T>(sum)) ? 0 : 1;
        } else {
          wrong += same(result[i], sum) ? 0 : 1;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEMPLATE_TEST_CASE("sums are in rank order, with the same bits on every instruction set, for all outputs", "", float,
                   bf16, fp16, double, std::int32_t, std::int64_t, std::uint8_t) {
  using T = TestType;
  int const ranks = GENERATE(1, 2, 3, 4, 7);
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  constexpr std::int64_t length = 3000;
  std::vector<std::vector<T>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(random_values<T>(length, static_cast<std::uint32_t>(rank), numbers));
  }
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    int wrong = 0;
    for (std::int64_t const count : {0, 1, 2, 15, 17, 1023, 1024, 1025, 2999}) {
      for (std::int64_t const first : {0, 1}) {
        // Out of place: two outputs. In place: every input is an output too, as in a fused all-reduce.
        for (bool const in_place : {false, true}) {
          auto sources = inputs;
          std::vector<std::vector<T>> apart(2, std::vector<T>(length, T{}));
          auto& results = in_place ? sources : apart;
          auto const untouched = results;
          std::vector<void const*> from;
          std::vector<void*> to;
          for (auto const& source : sources) {
            from.push_back(source.data());
          }
          for (auto& result : results) {
            to.push_back(result.data());
          }
          rank_fold(Reduce::sum, to.data(), static_cast<int>(to.size()), from.data(), ranks, Type<T>::dtype, first,
                    count);
          for (std::size_t k = 0; k < results.size(); ++k) {
            for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
              bool const inside = i >= static_cast<std::size_t>(first) && i < static_cast<std::size_t>(first + count);
              wrong += same(results[k][i], inside ? sum_in_order(inputs, i) : untouched[k][i]) ? 0 : 1;
            }
          }
        }
      }
    }
    INFO(testing::name_of(isa));
    CHECK(wrong == 0);
  }
}

TEST_CASE("the order of additions is that of the ranks") {
  float const large = 1e8F;
  std::vector<float> const a{large, 1}, b{-large, large}, c{1, -large};
  void const* const inputs[] = {a.data(), b.data(), c.data()};
  std::vector<float> sum(2);
  void* const output = sum.data();
  rank_fold(Reduce::sum, &output, 1, inputs, 3, Dtype::fp32, 0, 2);
  CHECK(sum == std::vector<float>{1, 0});  // (1e8 - 1e8) + 1, but (1 + 1e8) - 1e8
}

TEST_CASE("16-bit types are rounded once") {
  // 2048 + 1 is 2048 in fp16, and adding 1 again gives 2048, too; but 2048 + 1 + 1 is 2050.
  std::vector<fp16> const a{from_float<fp16>(2048)}, one{from_float<fp16>(1)};
  void const* const inputs[] = {a.data(), one.data(), one.data()};
  fp16 sum{};
  void* const output = &sum;
  rank_fold(Reduce::sum, &output, 1, inputs, 3, Dtype::fp16, 0, 1);
  CHECK(to_float(sum) == 2050);
}

TEST_CASE("integers wrap around and bytes count as unsigned") {
  std::vector<std::int32_t> const largest{std::numeric_limits<std::int32_t>::max()}, one{1};
  void const* const inputs[] = {largest.data(), one.data()};
  std::int32_t sum = 0;
  void* const output = &sum;
  rank_fold(Reduce::sum, &output, 1, inputs, 2, Dtype::int32, 0, 1);
  CHECK(sum == std::numeric_limits<std::int32_t>::min());

  std::uint8_t const large = 200, small = 100;
  void const* const bytes[] = {&large, &small};
  std::uint8_t byte = 0;
  void* const byte_output = &byte;
  rank_fold(Reduce::sum, &byte_output, 1, bytes, 2, Dtype::byte, 0, 1);
  CHECK(byte == 44);
}

TEST_CASE("copies are exact at every alignment, below and above where stores are streamed") {
  constexpr std::int64_t streamed = 12 << 20;
  constexpr std::int64_t margin = 128;
  std::vector<std::byte> source(static_cast<std::size_t>(streamed + 4 * margin));
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::byte>(i * 131 + i / 251);
  }
  for (std::int64_t const bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{63}, std::int64_t{4096}, streamed - 1,
                                   streamed, streamed + 1, streamed + 77}) {
    for (std::int64_t const offset : {0, 1, 16, 63}) {
      std::vector<std::byte> destination(source.size(), std::byte{0xee});
      copy_bytes(destination.data() + offset, source.data() + 3, bytes);
      INFO(bytes << " bytes to offset " << offset);
      CHECK(std::memcmp(destination.data() + offset, source.data() + 3, static_cast<std::size_t>(bytes)) == 0);
      CHECK((offset == 0 || destination[static_cast<std::size_t>(offset - 1)] == std::byte{0xee}));
      CHECK(destination[static_cast<std::size_t>(offset + bytes)] == std::byte{0xee});
    }
  }
  auto const before = source;
  copy_bytes(source.data(), source.data(), streamed);
  CHECK(source == before);
}

TEST_CASE("blocks of several ranks, and last pieces of copies to all, may be shorter than the alignment") {
  constexpr std::int64_t piece = 64 << 10, many = 8 << 20;
  std::vector<std::byte> source(static_cast<std::size_t>(many + piece + 256));
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::byte>(i * 131 + i / 251);
  }
  for (std::int64_t const bytes :
       {std::int64_t{1}, std::int64_t{10}, std::int64_t{70}, many + 1, many + 10, many + 47}) {
    for (std::int64_t const offset : {1, 16, 63}) {
      std::vector<std::byte> a(source.size(), std::byte{0xee}), b = a, c = a;
      copy_bytes(a.data() + offset, source.data() + 3, bytes, many);
      std::array<void*, 2> const both{b.data() + offset, c.data() + offset};
      copy_to_all(both, source.data() + 3, bytes);
      for (auto const* const destination : {&a, &b, &c}) {
        INFO(bytes << " bytes to offset " << offset);
        CHECK(std::memcmp(destination->data() + offset, source.data() + 3, static_cast<std::size_t>(bytes)) == 0);
        CHECK((*destination)[static_cast<std::size_t>(offset - 1)] == std::byte{0xee});
        CHECK((*destination)[static_cast<std::size_t>(offset + bytes)] == std::byte{0xee});
      }
    }
  }
}

}  // namespace
}  // namespace zeroth::device
