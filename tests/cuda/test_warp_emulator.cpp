// SPDX-License-Identifier: Apache-2.0
/// Tests warps, their fragments and fetches in the emulator: they follow the PTX ISA, and mistakes are detected as on a
/// GPU.
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "cuda/warp.hpp"
#include "support/block_emulator.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using cuda::FragmentA;
using cuda::FragmentB;
using cuda::FragmentC;
using cuda::PerLane;

constexpr int side = cuda::fragment_side, stride = side + 8;

/// c += a b, or a b', for 16 x 16 matrices, by each of two warps: what they load from shared memory was fetched.
struct Product {
  static constexpr int threads = 64;
  struct Shared {
    alignas(16) bf16 b[side][stride];
  };

  bf16 const *a, *b;  // b: rows of 16
  float* c;           // of each warp
  bool transposed;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    using Warp = typename Block::Warp;
    using Pack = cuda::Pack<bf16, 8>;
    block.fetch([&](int thread, auto const& copy) {
      if (thread < 2 * side) {
        copy(reinterpret_cast<Pack*>(&shared.b[thread / 2][thread % 2 * 8]),
             reinterpret_cast<Pack const*>(b + thread / 2 * side + thread % 2 * 8), true);
      }
    });
    block.await_fetches();
    block.warps([&](Warp& warp) {
      PerLane<FragmentA<bf16>, Warp> left;
      PerLane<FragmentB<bf16>, Warp> right;
      PerLane<FragmentC, Warp> sums;
      each_pair(warp, [&](int lane, int pair, int row, int column) {
        bf16 const* const from = a + row * side + column;
        left[lane].pairs[pair] = cuda::pair_of<bf16>(to_float(from[0]), to_float(from[1]));
        sums[lane].pairs[pair][0] = c[element(warp, row, column)];
        sums[lane].pairs[pair][1] = c[element(warp, row, column + 1)];
      });
      if (transposed) {
        cuda::load_fragment_transposed(warp, right, &shared.b[0][0], stride);
      } else {
        cuda::load_fragment(warp, right, &shared.b[0][0], stride);
      }
      warp.multiply_add(sums, left, right);
      each_pair(warp, [&](int lane, int pair, int row, int column) {
        c[element(warp, row, column)] = sums[lane].pairs[pair][0];
        c[element(warp, row, column + 1)] = sums[lane].pairs[pair][1];
      });
    });
  }

  template <class Warp>
  static int element(Warp const& warp, int row, int column) {
    return (warp.index() * side + row) * side + column;
  }
  template <class Warp, class F>
  static void each_pair(Warp& warp, F const& f) {
    warp.lanes([&](int lane) {
      for (int pair = 0; pair < cuda::fragment_pairs; ++pair) {
        f(lane, pair, cuda::row_of_pair(lane, pair), cuda::column_of_pair(lane, pair));
      }
    });
  }
};

TEST_CASE("fragments multiply like matrices, also transposed") {
  std::mt19937 random{1};
  std::uniform_int_distribution<int> number{-8, 8};  // sums are exact
  std::vector<bf16> a(side * side), b(side * side);
  for (auto* matrix : {&a, &b}) {
    for (auto& value : *matrix) {
      value = from_float<bf16>(static_cast<float>(number(random)));
    }
  }
  for (bool const transposed : {false, true}) {
    for (bool const backwards : {false, true}) {
      std::vector<float> c(2 * side * side, 3), expected(side * side, 3);
      emulate(Product{a.data(), b.data(), c.data(), transposed}, 1, {.backwards = backwards});
      for (std::size_t i = 0; i < side * side; ++i) {
        for (std::size_t k = 0; k < side; ++k) {
          auto const other = transposed ? i % side * side + k : k * side + i % side;
          expected[i] += to_float(a[i / side * side + k]) * to_float(b[other]);
        }
      }
      CHECK(std::vector<float>(c.begin(), c.begin() + side * side) == expected);
      CHECK(std::vector<float>(c.begin() + side * side, c.end()) == expected);
    }
  }
}

/// Two fetches, of which the second is not waited for.
struct TwoFetches {
  static constexpr int threads = 32;
  struct Shared {
    float values[3][threads];
  };
  float const* values;
  float* seen;  // [3, threads]

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    block.fetch([&](int thread, auto const& copy) {
      copy(&shared.values[0][thread], values + thread, true);
      copy(&shared.values[1][thread], values + thread, thread % 2 == 0);
    });
    block.await_fetches();
    block.fetch([&](int thread, auto const& copy) { copy(&shared.values[2][thread], values + thread, true); });
    block.phase([&](int thread) {
      for (int k = 0; k < 3; ++k) {
        seen[k * threads + thread] = shared.values[k][thread];
      }
    });
  }
};

TEST_CASE("asynchronous copies arrive at their wait, with zeros outside of the source") {
  std::vector<float> const values(32, 5);
  std::vector<float> seen(96);
  emulate(TwoFetches{values.data(), seen.data()}, 1);
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(seen[i] == 5);
    CHECK(seen[32 + i] == (i % 2 == 0 ? 5 : 0));
    CHECK(std::isnan(seen[64 + i]));  // still on its way
  }
}

/// Tiles are fetched while warps, which continued without a barrier, still read the previous one. Detects a missing
/// barrier, and writes to memory that others may still read.
struct OpenWarps {
  static constexpr int threads = 64;
  enum class Then { nothing, a_barrier_and_a_fetch, a_fetch, a_write, a_write_of_its_own };
  struct Shared {
    float values[2][threads];
  };
  float const* values;
  float* seen;
  Then then;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    auto const fetch = [&](int thread, auto const& copy) { copy(&shared.values[0][thread], values + thread, true); };
    block.fetch(fetch);
    block.await_fetches();
    block.open_warps([&](auto& warp) {
      warp.lanes([&](int lane) {
        int const thread = warp.index() * cuda::warp_threads + lane;
        seen[thread] = shared.values[0][threads - 1 - thread];
        if (then == Then::a_write_of_its_own) {
          shared.values[1][thread] = 1;
        }
      });
    });
    if (then == Then::a_barrier_and_a_fetch) {
      block.await_fetches();
    }
    if (then == Then::a_barrier_and_a_fetch || then == Then::a_fetch) {
      block.fetch(fetch);
    }
    block.phase([&](int thread) {
      if (then == Then::a_write) {
        shared.values[0][thread] = 0;
      }
    });
  }
};

TEST_CASE("memory that other warps may still read must only be changed after a barrier") {
  std::vector<float> values(64), seen(64);
  std::iota(values.begin(), values.end(), 0.0F);
  auto const run = [&](OpenWarps::Then then) { emulate(OpenWarps{values.data(), seen.data(), then}, 1); };
  run(OpenWarps::Then::nothing);
  run(OpenWarps::Then::a_barrier_and_a_fetch);
  CHECK(seen == std::vector<float>(values.rbegin(), values.rend()));
  CHECK_THROWS_AS(run(OpenWarps::Then::a_fetch), std::logic_error);
  CHECK_THROWS_AS(run(OpenWarps::Then::a_write), std::logic_error);
  CHECK_THROWS_AS(run(OpenWarps::Then::a_write_of_its_own), std::logic_error);
}

/// Each warp reads what the previous one has written.
struct WarpRace {
  static constexpr int threads = 128;
  struct Shared {
    int values[4];
  };
  int* result;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    block.warps([&](auto& warp) { shared.values[warp.index()] = 1; });
    block.warps(
        [&](auto& warp) { shared.values[warp.index()] += warp.index() > 0 ? shared.values[warp.index() - 1] : 0; });
    block.warps([&](auto& warp) { result[warp.index()] = shared.values[warp.index()]; });
  }
};

TEST_CASE("warps that depend on each other in a phase give themselves away") {
  std::vector<int> forwards(4), backwards(4);
  emulate(WarpRace{forwards.data()}, 1);
  emulate(WarpRace{backwards.data()}, 1, {.backwards = true});
  CHECK(forwards != backwards);
}

/// Values that a warp keeps across phases, and folded quads.
struct Quads {
  static constexpr int threads = 64;
  struct Shared {};
  int* sums;

  template <class Block>
  void operator()(Block& block, Shared& /*shared*/) const {
    using Warp = typename Block::Warp;
    cuda::PerWarp<PerLane<int, Warp>, Block> kept;
    block.warps([&](Warp& warp) { warp.lanes([&](int lane) { kept[warp][lane] = 100 * warp.index() + lane; }); });
    block.warps([&](Warp& warp) { warp.fold_quads(kept[warp], [](int a, int b) { return a + b; }); });
    block.warps([&](Warp& warp) { warp.lanes([&](int lane) { sums[32 * warp.index() + lane] = kept[warp][lane]; }); });
  }
};

TEST_CASE("all four lanes of a quad get its sum") {
  std::vector<int> sums(64);
  emulate(Quads{sums.data()}, 1);
  for (int i = 0; i < 64; ++i) {
    int const warp = i / 32;
    int const first = i % 32 / 4 * 4;
    CHECK(sums[static_cast<std::size_t>(i)] == 4 * (100 * warp + first) + 6);
  }
}

/// Fetches 16 bytes from an address that is no multiple of 16.
struct Crooked {
  static constexpr int threads = 32;
  struct Shared {
    alignas(16) float values[4];
  };
  std::byte const* from;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    using Pack = cuda::Pack<float, 4>;
    block.fetch([&](int thread, auto const& copy) {
      copy(reinterpret_cast<Pack*>(shared.values), reinterpret_cast<Pack const*>(from), thread == 0);
    });
  }
};

TEST_CASE("accesses that a GPU refuses are rejected") {
  alignas(16) std::byte memory[32];
  CHECK_NOTHROW(emulate(Crooked{memory}, 1));
  CHECK_THROWS_AS(emulate(Crooked{memory + 4}, 1), std::logic_error);
}

}  // namespace
}  // namespace zeroth::testing
