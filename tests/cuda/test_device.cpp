/// Memory, streams and events of the CUDA device.
#include <string>

#include "support/catch.hpp"
#include "support/fake_cuda/fake_cuda.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"
#include "zeroth/device/kernels.hpp"

namespace zeroth::testing {
namespace {

using device::Category;
using device::Overlap;

TEST_CASE("a device hands out zero-filled, aligned memory and keeps the book of it") {
  for (std::size_t const offset : {0, 256}) {
    fake_cuda::reset({.block_offset = offset});
    auto const device = device::make_cuda_device(0);
    CHECK(device->name() == "cuda:0");
    auto memory = device->allocate(Category::optimizer, 10'000);
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
    CHECK(std::all_of(memory->data(), memory->data() + 10'000, [](std::byte each) { return each == std::byte{0}; }));
    CHECK(device->ledger().live().optimizer == 10'000);
    CHECK(fake_cuda::bytes_in_use() >= 10'000);
    memory.reset();
    CHECK(device->ledger().live().optimizer == 0);
    CHECK(device->ledger().peak().optimizer == 10'000);
    CHECK(fake_cuda::bytes_in_use() == 0);
    auto const none = device->allocate(Category::slots, 0);
    CHECK(none->bytes() == 0);
  }
}

}  // namespace
}  // namespace zeroth::testing
