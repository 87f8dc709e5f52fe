// SPDX-License-Identifier: Apache-2.0
/// Warps of the block emulator: cuda/warp.hpp on the host, lane after lane. Fragments are distributed over lanes as in
/// the PTX ISA, so that a kernel that confuses the pairs of lanes computes nonsense here as well.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "cuda/warp.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing {

/// A GPU would abort at such an access.
inline void expect_aligned(void const* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    throw std::logic_error{"a kernel's access is not aligned"};
  }
}

class EmulatedWarp {
 public:
  template <class T>
  class PerLane {
   public:
    PerLane() { std::memset(static_cast<void*>(values_.data()), 0xff, sizeof(values_)); }
    T& operator[](int lane) { return values_[static_cast<std::size_t>(lane)]; }
    T const& operator[](int lane) const { return values_[static_cast<std::size_t>(lane)]; }

   private:
    std::array<T, cuda::warp_threads> values_;
  };

  EmulatedWarp(int index, bool backwards) : index_{index}, backwards_{backwards} {}

  [[nodiscard]] int index() const { return index_; }

  template <class F>
  void lanes(F const& function) const {
    for (int k = 0; k < cuda::warp_threads; ++k) {
      function(backwards_ ? cuda::warp_threads - 1 - k : k);
    }
  }

  template <class T, class Combine>
  void fold_quads(PerLane<T>& values, Combine const& combine) const {
    for (int distance : {1, 2}) {
      auto const before = values;
      lanes([&](int lane) { values[lane] = combine(before[lane], before[lane ^ distance]); });
    }
  }

  template <class T, class Address>
  void load(PerLane<cuda::FragmentB<T>>& to, Address const& address) const {
    load_matrices(to, address, [](int lane, int k) { return Place{lane / 4, lane % 4 * 2 + k}; });
  }
  template <class T, class Address>
  void load_transposed(PerLane<cuda::FragmentB<T>>& to, Address const& address) const {
    load_matrices(to, address, [](int lane, int k) { return Place{lane % 4 * 2 + k, lane / 4}; });
  }

  template <class T>
  void multiply_add(PerLane<cuda::FragmentC>& c, PerLane<cuda::FragmentA<T>> const& a,
                    PerLane<cuda::FragmentB<T>> const& b) const {
    constexpr int side = cuda::fragment_side;
    float left[side][side];
    float right[side][side];
    for (int lane = 0; lane < cuda::warp_threads; ++lane) {
      for (int p = 0; p < cuda::fragment_pairs; ++p) {
        for (int k = 0; k < 2; ++k) {
          left[lane / 4 + p % 2 * 8][lane % 4 * 2 + p / 2 * 8 + k] = half_of<T>(a[lane].pairs[p], k);
          right[lane % 4 * 2 + p % 2 * 8 + k][lane / 4 + p / 2 * 8] = half_of<T>(b[lane].pairs[p], k);
        }
      }
    }
    for (int lane = 0; lane < cuda::warp_threads; ++lane) {
      for (int p = 0; p < cuda::fragment_pairs; ++p) {
        for (int k = 0; k < 2; ++k) {
          float& sum = c[lane].pairs[p][k];
          for (int i = 0; i < side; ++i) {
            sum += left[lane / 4 + p % 2 * 8][i] * right[i][lane % 4 * 2 + p / 2 * 8 + k];
          }
        }
      }
    }
  }

 private:
  struct Place {
    int row, column;
  };

  template <class T>
  [[nodiscard]] static float half_of(std::uint32_t pair, int k) {
    T halves[2];
    std::memcpy(static_cast<void*>(halves), &pair, sizeof(pair));
    return to_float(halves[k]);
  }

  /// `place(lane, k)` is the element of its matrix that is half k of a lane's pair.
  template <class T, class Address, class Where>
  void load_matrices(PerLane<cuda::FragmentB<T>>& to, Address const& address, Where const& place) const {
    for (int lane = 0; lane < cuda::warp_threads; ++lane) {
      for (int matrix = 0; matrix < cuda::fragment_pairs; ++matrix) {
        expect_aligned(address(lane), 16);
        T halves[2];
        for (int k = 0; k < 2; ++k) {
          auto const [row, column] = place(lane, k);
          halves[k] = address(matrix * 8 + row)[column];
        }
        std::memcpy(&to[lane].pairs[matrix], static_cast<void const*>(halves), sizeof(halves));
      }
    }
  }

  int index_;
  bool backwards_;
};

}  // namespace zeroth::testing
