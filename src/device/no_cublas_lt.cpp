// SPDX-License-Identifier: Apache-2.0
/// Products on GPUs of a library that was built without cuBLASLt's header.
#include "device/cuda_products.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {

struct CudaProducts::State {};

CudaProducts::CudaProducts() {
  throw SystemError{
      "Muon needs cuBLASLt on GPUs, and this library was built without cublasLt.h; install it beside cuda_runtime.h, "
      "and configure and build again"};
}

CudaProducts::~CudaProducts() = default;

void CudaProducts::enqueue(cudaStream_t /*stream*/, CudaProduct const& /*product*/, std::byte* /*workspace*/) {}

}  // namespace zeroth::device
