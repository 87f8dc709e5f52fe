/// Runs kernel bodies (cuda/block.hpp) on the host: block after block, in each block phase after phase, in each phase
/// thread after thread. Memory that a GPU would hand over as it is starts as bytes of 0xff: NaN, or -1.
///
/// Barriers cannot be forgotten, since a phase ends with one. What is left to go wrong is threads of one phase, or
/// blocks, that depend on each other: run in opposite orders they give different results.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "cuda/block.hpp"
#include "device/element_arithmetic.hpp"

namespace zeroth::testing {

struct Emulation {
  std::int64_t most_blocks = std::numeric_limits<std::int64_t>::max();  ///< A grid has no more: bodies must stride.
  bool backwards = false;                                               ///< Blocks and threads, last to first.
};

template <int thread_count>
class EmulatedBlock {
  static_assert(thread_count > 0 && thread_count % cuda::warp_threads == 0 && thread_count <= 1024);

 public:
  template <class T>
  class PerThread {
   public:
    PerThread() : values_(thread_count) {
      std::memset(static_cast<void*>(values_.data()), 0xff, values_.size() * sizeof(T));
    }
    T& operator[](int thread) { return values_[static_cast<std::size_t>(thread)]; }

   private:
    std::vector<T> values_;
  };

  EmulatedBlock(std::int64_t index, std::int64_t count, bool backwards)
      : index_{index}, count_{count}, backwards_{backwards} {}

  [[nodiscard]] std::int64_t index() const { return index_; }
  [[nodiscard]] std::int64_t count() const { return count_; }

  template <class F>
  void phase(F const& function) const {
    for (int k = 0; k < thread_count; ++k) {
      function(backwards_ ? thread_count - 1 - k : k);
    }
  }

  template <class T, class Combine>
  void fold_warps(PerThread<T>& values, Combine const& combine) const {
    for (int first = 0; first < thread_count; first += cuda::warp_threads) {
      device::fold_halves(cuda::warp_threads, [&](int half) {
        for (int lane = 0; lane < half; ++lane) {
          values[first + lane] = combine(values[first + lane], values[first + lane + half]);
        }
      });
      std::memset(static_cast<void*>(&values[first + 1]), 0xff, (cuda::warp_threads - 1) * sizeof(T));
    }
  }

 private:
  std::int64_t index_, count_;
  bool backwards_;
};

/// As a kernel of `blocks` blocks would do it, if it may have as many.
template <class Body>
void emulate(Body const& body, std::int64_t blocks, Emulation const& emulation = {}) {
  std::int64_t const grid = std::min(blocks, emulation.most_blocks);
  for (std::int64_t k = 0; k < grid; ++k) {
    auto const shared = std::make_unique<typename Body::Shared>();
    std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(*shared));
    EmulatedBlock<Body::threads> block{emulation.backwards ? grid - 1 - k : k, grid, emulation.backwards};
    body(block, *shared);
  }
}

}  // namespace zeroth::testing
