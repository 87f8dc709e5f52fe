// SPDX-License-Identifier: Apache-2.0
/// The kernels' cases on the host: every body in the block emulator. Work waits in a queue until a result is asked for.
#include <cstring>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include "machine.hpp"
#include "support/emulated_launch.hpp"

namespace zeroth::testing {
namespace {

std::vector<std::function<void()>>& queue() {
  static std::vector<std::function<void()>> queued;
  return queued;
}

class EmulatedMachine final : public Machine {
 public:
  [[nodiscard]] int ways() const override { return 2; }
  void choose(int way) override {
    emulation() = way == 0 ? Emulation{} : Emulation{.most_blocks = 2, .backwards = true};
  }
  [[nodiscard]] std::byte* allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{256}));
  }
  void release(std::byte* memory) override { ::operator delete (memory, std::align_val_t{256}); }
  void upload(std::byte* to, void const* from, std::size_t bytes) override {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }
  void download(void* to, std::byte const* from, std::size_t bytes) override {
    for (auto const& work : std::exchange(queue(), {})) {
      work();
    }
    upload(static_cast<std::byte*>(to), from, bytes);
  }
  [[nodiscard]] cudaStream_t stream() override { return nullptr; }
  [[nodiscard]] std::size_t guard_bytes() const override { return 0; }
};

}  // namespace

cudaError_t enqueue(cudaStream_t /*stream*/, std::type_index /*kernel*/, std::function<void()> work) {
  queue().push_back(std::move(work));
  return cudaSuccess;
}
bool reaches(cudaStream_t /*stream*/, void const* /*data*/, std::int64_t /*bytes*/) { return true; }

Machine& machine() {
  static EmulatedMachine emulated;
  return emulated;
}

}  // namespace zeroth::testing
