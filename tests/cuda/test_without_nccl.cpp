// SPDX-License-Identifier: Apache-2.0
/// The CUDA device of a library that was built without NCCL.
#include "device/cuda_block.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda/fake_cuda.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {

TEST_CASE("registrable memory is rejected without NCCL's allocator") {
  testing::fake_cuda::reset();
  expect_allocator(CudaBuffers::plain);
  CHECK_THAT(testing::thrown<ContractError>([] { expect_allocator(CudaBuffers::registrable); }),
             Catch::Contains("CudaBuffers::registrable") && Catch::Contains("built without NCCL"));
  CudaContext context{0};
  Ledger ledger;
  CudaMemory const plain{context, ledger, Category::slots, 100, {.buffers = CudaBuffers::plain}};
  CHECK(ledger.live().slots == 100);
  CHECK_THAT(testing::thrown<SystemError>([&] {
               CudaMemory{context, ledger, Category::slots, 100, {.buffers = CudaBuffers::registrable}};
             }),
             Catch::Contains("refused 100 bytes for slots: built without NCCL"));
  CHECK(ledger.live().slots == 100);
}

}  // namespace zeroth::device
