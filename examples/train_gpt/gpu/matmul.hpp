// SPDX-License-Identifier: Apache-2.0
/// Products of row-major matrices on a stream, by cuBLASLt.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "product.hpp"

namespace gpt::gpu {

struct MatmulOptions {
  bool tf32 = false;  ///< fp32 factors may be rounded to TF32.
};

/// One algorithm per kind of product, chosen when it is asked for first and the same from then on: the same bits in
/// every step. Its workspace is allocated once. Belongs to one thread.
///
/// All data begin at multiples of 256 bytes, as CUDA's memory, the matrices in it and the parameters and gradients of
/// units do. Fast on tensor cores where rows begin at multiples of 16 bytes, too.
class Matmul {
 public:
  /// Throws SystemError if cuBLASLt cannot be had.
  Matmul(cudaStream_t stream, MatmulOptions const& options);
  ~Matmul();
  Matmul(Matmul const&) = delete;
  Matmul& operator=(Matmul const&) = delete;
  /// Enqueues. Throws ContractError for shapes that do not fit and addresses that are not aligned, SystemError naming
  /// the product if cuBLASLt has no algorithm for it or refuses it. Epilogues with GELU that cuBLASLt has no algorithm
  /// for, and all in fp32, are a kernel of ours behind the product.
  void operator()(Product const& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpt::gpu
