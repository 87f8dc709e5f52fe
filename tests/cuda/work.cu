// SPDX-License-Identifier: Apache-2.0
#include "cuda/work.hpp"

namespace zeroth::testing {
namespace {

constexpr int threads = 256;

template <class T, class G>
__global__ void contribute(Contribution<T, G> work) {
  auto const i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < work.count) {
    work.at(i);
  }
}

__device__ unsigned long long nanoseconds() {
  unsigned long long time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void wait_at_gate(int const volatile* open) {
  constexpr unsigned long long patience = 60'000'000'000ULL;  // longer than any test's own
  auto const began = nanoseconds();
  while (*open == 0 && nanoseconds() - began < patience) {
  }
}

}  // namespace

template <class T, class G>
cudaError_t enqueue(cudaStream_t stream, Contribution<T, G> const& work) {
  if (work.count > 0) {
    auto const blocks = static_cast<unsigned>((work.count + threads - 1) / threads);
    contribute<<<blocks, threads, 0, stream>>>(work);
  }
  return cudaGetLastError();
}
template cudaError_t enqueue(cudaStream_t, Contribution<float, float> const&);
template cudaError_t enqueue(cudaStream_t, Contribution<bf16, bf16> const&);
template cudaError_t enqueue(cudaStream_t, Contribution<bf16, float> const&);
template cudaError_t enqueue(cudaStream_t, Contribution<fp16, fp16> const&);
template cudaError_t enqueue(cudaStream_t, Contribution<fp16, float> const&);

cudaError_t enqueue_gate(cudaStream_t stream, int const* open) {
  wait_at_gate<<<1, 1, 0, stream>>>(open);
  return cudaGetLastError();
}

}  // namespace zeroth::testing
