// SPDX-License-Identifier: Apache-2.0
/// The kernels' cases on a GPU.
#include "machine.hpp"

namespace zeroth::testing {
namespace {

void expect(cudaError_t error) {
  INFO(cudaGetErrorName(error) << ": " << cudaGetErrorString(error));
  REQUIRE(error == cudaSuccess);
}

class Gpu final : public Machine {
 public:
  [[nodiscard]] int ways() const override { return 1; }
  void choose(int /*way*/) override {}
  [[nodiscard]] std::byte* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    expect(cudaMalloc(&memory, bytes));
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) override { cudaFree(memory); }
  void upload(std::byte* to, void const* from, std::size_t bytes) override {
    expect(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  void download(void* to, std::byte const* from, std::size_t bytes) override {
    expect(cudaDeviceSynchronize());
    expect(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  [[nodiscard]] cudaStream_t stream() override { return nullptr; }  // the default one, in line with the copies
  [[nodiscard]] std::size_t guard_bytes() const override { return 256; }
};

}  // namespace

Machine& machine() {
  static Gpu gpu;
  return gpu;
}

}  // namespace zeroth::testing
