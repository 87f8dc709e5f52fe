// SPDX-License-Identifier: Apache-2.0
/// Tests the emulator: it must run valid kernels like a GPU, and detect mistakes that would fail on a GPU.
#include "support/block_emulator.hpp"

#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

/// Each block turns its part of an array around, through shared memory.
struct Reverse {
  static constexpr int threads = 64;
  struct Shared {
    int values[threads];
  };
  int* values;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    auto* const mine = values + block.index() * threads;
    block.phase([&](int thread) { shared.values[thread] = mine[thread]; });
    block.phase([&](int thread) { mine[thread] = shared.values[threads - 1 - thread]; });
  }
};

TEST_CASE("a phase is complete before the next one begins") {
  std::vector<int> values(192);
  std::iota(values.begin(), values.end(), 0);
  for (bool const backwards : {false, true}) {
    emulate(Reverse{values.data()}, 3, {.backwards = backwards});
    CHECK(values[0] == (backwards ? 0 : 63));
    CHECK(values[191] == (backwards ? 191 : 128));
  }
}

/// Contains a mistake: threads read what others write in the same phase.
struct Race {
  static constexpr int threads = 32;
  struct Shared {
    int values[threads];
  };
  int* result;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    block.phase([&](int thread) { shared.values[thread] = thread; });
    block.phase([&](int thread) { shared.values[thread] = thread > 0 ? shared.values[thread - 1] : 0; });
    block.phase([&](int thread) { result[thread] = shared.values[thread]; });
  }
};

TEST_CASE("threads that depend on each other within a phase are detected") {
  std::vector<int> forwards(32), backwards(32);
  emulate(Race{forwards.data()}, 1);
  emulate(Race{backwards.data()}, 1, {.backwards = true});
  CHECK(forwards != backwards);
}

/// Reports what it finds before it has written anything.
struct Untouched {
  static constexpr int threads = 32;
  struct Shared {
    float value;
  };
  float *shared_value, *own_value;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    cuda::PerThread<float, Block> own;
    block.phase([&](int thread) {
      if (thread == 7) {
        *shared_value = shared.value;
        *own_value = own[thread];
      }
    });
  }
};

TEST_CASE("shared memory that was never written is NaN") {
  float shared = 0, own = 0;
  emulate(Untouched{&shared, &own}, 1);
  CHECK(std::isnan(shared));
  CHECK(std::isnan(own));
}

/// Reads or changes shared memory where threads run individually.
struct Alone {
  static constexpr int threads = 32;
  struct Shared {
    float values[threads];
  };
  float *seen, *kept;
  bool changes;

  template <class Block>
  void operator()(Block& block, Shared& shared) const {
    block.phase([&](int thread) { shared.values[thread] = 3; });
    block.alone([&](int thread) {
      seen[thread] = shared.values[thread];
      if (changes && thread == 5) {
        shared.values[thread] = 4;
      }
    });
    block.phase([&](int thread) { kept[thread] = shared.values[thread]; });
  }
};

TEST_CASE("single threads have no shared memory") {
  std::vector<float> seen(32), kept(32);
  emulate(Alone{seen.data(), kept.data(), false}, 1);
  CHECK(std::isnan(seen[7]));
  CHECK(kept == std::vector<float>(32, 3));
  CHECK_THROWS_AS(emulate(Alone{seen.data(), kept.data(), true}, 1), std::logic_error);
}

/// Folds each warp's values; all lanes report.
struct Fold {
  static constexpr int threads = 64;
  struct Shared {};
  float const* values;
  float* results;

  template <class Block>
  void operator()(Block& block, Shared& /*shared*/) const {
    cuda::PerThread<float, Block> own;
    block.phase([&](int thread) { own[thread] = values[thread]; });
    block.fold_warps(own, combined);
    block.phase([&](int thread) { results[thread] = own[thread]; });
  }

  /// Not associative: the pairs that are combined matter.
  static float combined(float a, float b) { return a * b - (a + b); }
};

TEST_CASE("warps are folded separately, half onto half, and all lanes get the result of lane 0") {
  std::vector<float> values(64), results(64);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 11) / 16;
  }
  emulate(Fold{values.data(), results.data()}, 1);
  for (std::size_t warp = 0; warp < 2; ++warp) {
    std::vector<float> expected(values.begin() + static_cast<std::ptrdiff_t>(32 * warp),
                                values.begin() + static_cast<std::ptrdiff_t>(32 * warp + 32));
    for (std::size_t half : {16U, 8U, 4U, 2U, 1U}) {
      for (std::size_t lane = 0; lane < half; ++lane) {
        expected[lane] = Fold::combined(expected[lane], expected[lane + half]);
      }
    }
    CHECK(std::vector<float>(results.begin() + static_cast<std::ptrdiff_t>(32 * warp),
                             results.begin() + static_cast<std::ptrdiff_t>(32 * warp + 32)) ==
          std::vector<float>(32, expected[0]));
  }
}

/// Counts visits of tiles, in any grid.
struct Stride {
  static constexpr int threads = 32;
  struct Shared {};
  int* visits;
  std::int64_t tiles;

  template <class Block>
  void operator()(Block& block, Shared& /*shared*/) const {
    block.phase([&](int thread) {
      for (std::int64_t i = block.index(); i < tiles; i += block.count()) {
        visits[i] += thread == 0 ? 1 : 0;
      }
    });
  }
};

TEST_CASE("a grid may be smaller than requested") {
  std::vector<int> visits(10);
  emulate(Stride{visits.data(), 10}, 10, {.most_blocks = 3});
  CHECK(visits == std::vector<int>(10, 1));
}

}  // namespace
}  // namespace zeroth::testing
