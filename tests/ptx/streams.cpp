// SPDX-License-Identifier: Apache-2.0
/// The kernels' PTX from nvcc, as work of streams of the tests' own CUDA runtime.
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <utility>

#include "support/fake_cuda/machine.hpp"
#include "support/ptx/registered.hpp"

namespace zeroth::testing::ptx {
namespace {

using fake_cuda::State;

/// The block that `gpu` reaches there.
Memory find_memory(int gpu, std::uintptr_t address) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  auto const after = state.blocks.upper_bound(address);
  if (after == state.blocks.begin() || !state.reaches(gpu, reinterpret_cast<void const*>(address), 1)) {
    return {};
  }
  auto const& [begin, block] = *std::prev(after);
  return {begin, block.bytes};
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, void const* kernel, std::function<void(FindMemory const&)> work) {
  auto const name = std::to_string(reinterpret_cast<std::uintptr_t>(kernel));
  return fake_cuda::launch(stream, name, [work = std::move(work), gpu = fake_cuda::current_gpu()] {
    try {
      work([gpu](std::uintptr_t address) { return find_memory(gpu, address); });
    } catch (Fault const& fault) {
      std::cerr << fault.what() << '\n';
      std::abort();  // an exception would be lost on a stream's thread
    }
  });
}

}  // namespace zeroth::testing::ptx
