/// The kernels' cases on the PTX that nvcc made of them. Work waits in a queue until a result is asked for. A run of
/// all cases fails if there is a kernel that none of them ran. With the environment variable ZEROTH_PTX_INEXACT what
/// GPUs approximate is off by up to 2 ulp, and tensor cores truncate.
#define CATCH_CONFIG_RUNNER
#include "cuda/machine.hpp"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "support/ptx/registered.hpp"

namespace zeroth::testing {
namespace {

std::vector<std::function<void()>>& queue() {
  static std::vector<std::function<void()>> queued;
  return queued;
}
std::map<std::uintptr_t, std::size_t>& allocations() {
  static std::map<std::uintptr_t, std::size_t> bytes;
  return bytes;
}

class Interpreter final : public Machine {
 public:
  [[nodiscard]] int ways() const override { return 2; }
  void choose(int way) override {
    bool const inexact = std::getenv("ZEROTH_PTX_INEXACT") != nullptr;
    ptx::behaviour() = {.backwards = way == 1, .approximate_ulps = inexact ? 2 : 0, .tensors_truncate = inexact};
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
      work();  // what a kernel must not do is an exception, which fails the case
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

namespace ptx {

cudaError_t enqueue(cudaStream_t /*stream*/, void const* /*kernel*/, std::function<void()> work) {
  queue().push_back(std::move(work));
  return cudaSuccess;
}

Memory find_memory(cudaStream_t /*stream*/, std::uintptr_t address) {
  auto const after = allocations().upper_bound(address);
  if (after == allocations().begin()) {
    return {};
  }
  auto const& [begin, bytes] = *std::prev(after);
  return {begin, bytes};
}

}  // namespace ptx
}  // namespace zeroth::testing

int main(int argument_count, char** arguments) {
  int const result = Catch::Session().run(argument_count, arguments);
  if (result != 0 || argument_count > 1) {  // some of the cases only
    return result;
  }
  auto const left = zeroth::testing::ptx::never_run();
  for (auto const& kernel : left) {
    std::cout << "no case ran " << kernel << '\n';
  }
  std::cout << zeroth::testing::ptx::kernel_names().size() - left.size() << " kernels ran\n";
  return left.empty() ? 0 : 1;
}
