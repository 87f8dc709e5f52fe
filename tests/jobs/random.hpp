// SPDX-License-Identifier: Apache-2.0
/// Random numbers determined by a seed, the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace zeroth::testing::jobs {

/// SplitMix64. Each purpose has its own sequence, so that an additional number for one purpose does not affect the
/// others.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view purpose) noexcept : state_{seed} {
    for (char const letter : purpose) {
      state_ = state_ * 0x100000001B3ULL + static_cast<unsigned char>(letter);
      next();
    }
  }
  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15ULL;
    auto x = state_;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
  }
  std::size_t below(std::size_t count) noexcept { return static_cast<std::size_t>(next() % count); }
  bool once_in(std::size_t count) noexcept { return below(count) == 0; }
  template <class List>
  auto const& among(List const& list) noexcept {
    return list[below(std::size(list))];
  }

 private:
  std::uint64_t state_;
};

/// Whether something happens at one of many points of a job: once in `count`, the same on every rank that asks.
template <class... Point>
bool happens(std::uint64_t seed, std::string_view purpose, std::size_t count, Point... point) noexcept {
  auto mixed = seed;
  for (auto const one : {static_cast<std::uint64_t>(point)...}) {
    mixed = mixed * std::uint64_t{0xD1342543DE82EF95} + one + 1;
  }
  return Random{mixed, purpose}.once_in(count);
}

}  // namespace zeroth::testing::jobs
