// SPDX-License-Identifier: Apache-2.0
/// Runs kernel bodies (cuda/block.hpp) on the host: block after block, in each block phase after phase, in each phase
/// thread after thread. Memory that would be uninitialised on a GPU starts as bytes of 0xff: NaN, or -1.
///
/// A phase ends with a barrier. The remaining mistakes are dependencies between threads or warps of one phase, or
/// between blocks: these give different results in the opposite order. Data fetched into shared memory arrives as late
/// as possible, and its destination holds NaN until then. Phases without a barrier are checked: threads that are alone
/// see NaN in shared memory, and a forbidden write to it throws std::logic_error.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cuda/block.hpp"
#include "device/element_arithmetic.hpp"
#include "support/warp_emulator.hpp"

namespace zeroth::testing {

struct Emulation {
  std::int64_t most_blocks = std::numeric_limits<std::int64_t>::max();  ///< Maximum grid size: bodies must stride.
  bool backwards = false;                                               ///< Runs blocks and threads from last to first.
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
  using Warp = EmulatedWarp;
  template <class T>
  class PerWarp {
   public:
    T& operator[](Warp const& warp) { return values_[static_cast<std::size_t>(warp.index())]; }

   private:
    std::vector<T> values_ = std::vector<T>(thread_count / cuda::warp_threads);
  };

  EmulatedBlock(std::int64_t index, std::int64_t count, bool backwards, std::span<std::byte> shared)
      : index_{index}, count_{count}, backwards_{backwards}, shared_{shared} {}

  [[nodiscard]] std::int64_t index() const { return index_; }
  [[nodiscard]] std::int64_t count() const { return count_; }

  template <class F>
  void phase(F const& function) {
    up_to_a_barrier([&] { each_thread(function); });
  }

  template <class F>
  void alone(F const& function) const {
    std::vector<std::byte> const before(shared_.begin(), shared_.end());
    std::ranges::fill(shared_, std::byte{0xff});
    each_thread(function);
    if (!std::ranges::all_of(shared_, [](std::byte each) { return each == std::byte{0xff}; })) {
      throw std::logic_error{"a kernel's thread changes shared memory while it is alone"};
    }
    std::ranges::copy(before, shared_.begin());
  }

  template <class T, class Combine>
  void fold_warps(PerThread<T>& values, Combine const& combine) const {
    for (int first = 0; first < thread_count; first += cuda::warp_threads) {
      device::fold_halves(cuda::warp_threads, [&](int half) {
        T before[cuda::warp_threads];
        std::copy_n(&values[first], cuda::warp_threads, before);
        for (int lane = 0; lane < cuda::warp_threads; ++lane) {
          values[first + lane] = combine(before[lane], before[lane ^ half]);
        }
      });
    }
  }

  template <class F>
  void warps(F const& function) {
    up_to_a_barrier([&] { each_warp(function); });
  }
  template <class F>
  void open_warps(F const& function) {
    if (open_.empty()) {
      open_.assign(shared_.begin(), shared_.end());
    }
    each_warp(function);
    expect_unchanged();
  }

  template <class F>
  void fetch(F const& function) {
    auto& copies = fetches_.emplace_back();
    each_thread([&](int thread) {
      function(thread, [&]<class Object>(Object* to, Object const* from, bool there) {
        static_assert(sizeof(Object) == 4 || sizeof(Object) == 16);
        expect_aligned(to, sizeof(Object));
        expect_aligned(from, sizeof(Object));
        std::memset(static_cast<void*>(to), 0xff, sizeof(Object));
        copies.push_back({to, there ? from : nullptr, sizeof(Object)});
      });
    });
    expect_unchanged();
  }
  void await_fetches() {
    expect_unchanged();
    open_.clear();
    for (auto const& fetch : std::exchange(fetches_, {})) {
      for (auto const& [to, from, bytes] : fetch) {
        if (from != nullptr) {
          std::memcpy(to, from, bytes);
        } else {
          std::memset(to, 0, bytes);
        }
      }
    }
  }

 private:
  struct Copy {
    void* to;
    void const* from;  // null: zeros
    std::size_t bytes;
  };

  template <class F>
  void each_thread(F const& function) const {
    for (int k = 0; k < thread_count; ++k) {
      function(backwards_ ? thread_count - 1 - k : k);
    }
  }
  template <class F>
  void each_warp(F const& function) const {
    constexpr int warp_count = thread_count / cuda::warp_threads;
    for (int k = 0; k < warp_count; ++k) {
      Warp warp{backwards_ ? warp_count - 1 - k : k, backwards_};
      function(warp);
    }
  }
  template <class F>
  void up_to_a_barrier(F const& function) {
    function();
    expect_unchanged();
    open_.clear();
  }
  /// Throws if shared memory that warps may still read has changed.
  void expect_unchanged() const {
    if (!open_.empty() && !std::ranges::equal(open_, shared_)) {
      throw std::logic_error{"a kernel changes shared memory that warps may still read: a barrier is missing"};
    }
  }

  std::int64_t index_, count_;
  bool backwards_;
  std::span<std::byte> shared_;
  std::vector<std::byte> open_;  ///< Shared memory when warps last continued without a barrier; empty since one.
  std::vector<std::vector<Copy>> fetches_;
};

/// Runs `body` as a kernel of `blocks` blocks, if the grid may have as many.
template <class Body>
void emulate(Body const& body, std::int64_t blocks, Emulation const& emulation = {}) {
  std::int64_t const grid = std::min(blocks, emulation.most_blocks);
  for (std::int64_t k = 0; k < grid; ++k) {
    auto const shared = std::make_unique<typename Body::Shared>();
    std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(*shared));
    EmulatedBlock<Body::threads> block{emulation.backwards ? grid - 1 - k : k, grid, emulation.backwards,
                                       std::as_writable_bytes(std::span{shared.get(), 1})};
    body(block, *shared);
  }
}

}  // namespace zeroth::testing
