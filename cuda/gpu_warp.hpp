// SPDX-License-Identifier: Apache-2.0
/// The warps of warp.hpp on a GPU, in PTX. For nvcc.
#pragma once
#include <cuda_runtime.h>

#include "cuda/warp.hpp"

namespace zeroth::cuda {

class GpuWarp {
 public:
  template <class T>
  class PerLane {
   public:
    __device__ T& operator[](int /*lane*/) { return value_; }
    __device__ T const& operator[](int /*lane*/) const { return value_; }

   private:
    T value_;
  };

  [[nodiscard]] __device__ int index() const { return static_cast<int>(threadIdx.x) / warp_threads; }

  template <class F>
  __device__ void lanes(F const& function) const {
    function(lane());
  }

  template <class T, class Combine>
  __device__ void fold_quads(PerLane<T>& values, Combine const& combine) const {
    T& mine = values[lane()];
    mine = combine(mine, __shfl_xor_sync(0xffffffffU, mine, 1));
    mine = combine(mine, __shfl_xor_sync(0xffffffffU, mine, 2));
  }

  template <class T, class Address>
  __device__ void load(PerLane<FragmentB<T>>& to, Address const& address) const {
    auto& p = to[lane()].pairs;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p[0]), "=r"(p[1]), "=r"(p[2]), "=r"(p[3])
                 : "r"(shared_address(address(lane())))
                 : "memory");
  }
  template <class T, class Address>
  __device__ void load_transposed(PerLane<FragmentB<T>>& to, Address const& address) const {
    auto& p = to[lane()].pairs;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p[0]), "=r"(p[1]), "=r"(p[2]), "=r"(p[3])
                 : "r"(shared_address(address(lane())))
                 : "memory");
  }

  template <class T>
  __device__ void multiply_add(PerLane<FragmentC>& c, PerLane<FragmentA<T>> const& a,
                               PerLane<FragmentB<T>> const& b) const {
    auto const& left = a[lane()].pairs;
    auto const& right = b[lane()].pairs;
    auto& sums = c[lane()].pairs;
    multiply_add_8<T>(sums[0], sums[1], left, right[0], right[1]);
    multiply_add_8<T>(sums[2], sums[3], left, right[2], right[3]);
  }

 private:
  [[nodiscard]] static __device__ int lane() { return static_cast<int>(threadIdx.x) % warp_threads; }
  [[nodiscard]] static __device__ unsigned shared_address(void const* address) {
    return static_cast<unsigned>(__cvta_generic_to_shared(address));
  }

  /// Multiplies eight columns.
  template <class T>
  static __device__ void multiply_add_8(float (&upper)[2], float (&lower)[2], std::uint32_t const (&a)[fragment_pairs],
                                        std::uint32_t b_0, std::uint32_t b_1) {
    if constexpr (dtype_of<T> == Dtype::bf16) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_0), "r"(b_1));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_0), "r"(b_1));
    }
  }
};

/// Starts the copies of a fetch.
struct GpuCopy {
  template <class Object>
  __device__ void operator()(Object* to, Object const* from, bool there) const {
    constexpr int bytes = sizeof(Object);
    static_assert(bytes == 4 || bytes == 16);
    auto const shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    auto const global = __cvta_generic_to_global(from);
    if constexpr (bytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(there ? bytes : 0)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(there ? bytes : 0)
                   : "memory");
    }
  }
};

}  // namespace zeroth::cuda
