// SPDX-License-Identifier: Apache-2.0
/// The kernels' cases on their PTX from nvcc. Work waits in a queue until a result is requested. A run of all cases
/// fails if a kernel was not run. With the environment variable ZEROTH_PTX_INEXACT approximate instructions are off by
/// up to 2 ulp, and tensor cores truncate.
#include "cuda/machine.hpp"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "support/ptx/registered.hpp"

namespace zeroth::testing {
namespace {

std::vector<std::function<void(ptx::FindMemory const&)>>& queue() {
  static std::vector<std::function<void(ptx::FindMemory const&)>> queued;
  return queued;
}
std::map<std::uintptr_t, std::size_t>& allocations() {
  static std::map<std::uintptr_t, std::size_t> bytes;
  return bytes;
}

ptx::Memory find_memory(std::uintptr_t address) {
  auto const after = allocations().upper_bound(address);
  if (after == allocations().begin()) {
    return {};
  }
  auto const& [begin, bytes] = *std::prev(after);
  return {begin, bytes};
}

bool counts() { return std::getenv("ZEROTH_PTX_ACCESSES") != nullptr; }

class Interpreter final : public Machine {
 public:
  [[nodiscard]] int ways() const override { return 2; }
  void choose(int way) override {
    bool const inexact = std::getenv("ZEROTH_PTX_INEXACT") != nullptr;
    ptx::behaviour() = {.backwards = way == 1,
                        .approximate_ulps = inexact ? 2 : 0,
                        .tensors_truncate = inexact,
                        .counts_traffic = way == 0 && counts()};  // the other way has the same accesses
  }
  [[nodiscard]] std::byte* allocate(std::size_t bytes) override {
    auto* const memory = static_cast<std::byte*>(::operator new (bytes + 1, std::align_val_t{256}));
    allocations()[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
    return memory;
  }
  void release(std::byte* memory) override {
    allocations().erase(reinterpret_cast<std::uintptr_t>(memory));
    ::operator delete (memory, std::align_val_t{256});
  }
  void upload(std::byte* to, void const* from, std::size_t bytes) override {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }
  void download(void* to, std::byte const* from, std::size_t bytes) override {
    for (auto const& work : std::exchange(queue(), {})) {
      work(&find_memory);  // forbidden actions of a kernel throw, which fails the case
    }
    upload(static_cast<std::byte*>(to), from, bytes);
  }
  [[nodiscard]] cudaStream_t stream() override { return nullptr; }
  [[nodiscard]] std::size_t guard_bytes() const override { return 0; }  // allocations end where arrays do
};

}  // namespace

Machine& machine() {
  static Interpreter interpreter;
  return interpreter;
}

cudaError_t ptx::enqueue(cudaStream_t /*stream*/, void const* /*kernel*/, std::function<void(FindMemory const&)> work) {
  queue().push_back(std::move(work));
  return cudaSuccess;
}
}  // namespace zeroth::testing

/// Nothing calls them here, but the kernels' objects refer to them.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const* kernel) {
  *attributes = {};
  return zeroth::testing::ptx::is_kernel(kernel) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
