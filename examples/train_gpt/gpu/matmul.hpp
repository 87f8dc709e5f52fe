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

/// Uses one algorithm per kind of product, chosen at its first use and kept from then on, so that every step gives the
/// same bits. Allocates its workspace once. Use it on one thread.
///
/// All data must be aligned to 256 bytes, as are allocations of CUDA, the matrices in them, and the parameters and
/// gradients of units. Tensor cores are fast if rows are aligned to 16 bytes, too.
class Matmul {
 public:
  /// Throws SystemError if cuBLASLt is unavailable.
  Matmul(cudaStream_t stream, MatmulOptions const& options);
  ~Matmul();
  Matmul(Matmul const&) = delete;
  Matmul& operator=(Matmul const&) = delete;
  /// Enqueues the product. Throws ContractError for shapes that do not fit and unaligned addresses, SystemError naming
  /// the product if cuBLASLt has no algorithm for it or rejects it. Epilogues with GELU run as a separate kernel after
  /// the product if cuBLASLt has no algorithm for them, and always in fp32.
  void operator()(Product const& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpt::gpu
