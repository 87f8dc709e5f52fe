// SPDX-License-Identifier: Apache-2.0
/// Products of row-major matrices on a stream, by cuBLASLt.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "gpu/algorithms.hpp"
#include "product.hpp"

namespace gpt::gpu {

struct MatmulOptions {
  bool tf32 = false;  ///< fp32 factors may be rounded to TF32.
  /// The algorithm of each product; null: the first result of cuBLASLt's heuristics.
  std::shared_ptr<Algorithms const> algorithms = nullptr;
  /// Measures each kind of product at its first use, and adds the fastest algorithm. The product is computed several
  /// times, so that what it adds to is wrong afterwards. Must outlive the Matmul. Null: measures nothing.
  Algorithms* measured = nullptr;
};

/// The properties of this machine on which algorithms depend. Throws SystemError if CUDA fails.
[[nodiscard]] Origin origin_here(bool tf32);

/// Uses one algorithm per kind of product, chosen at its first use and kept from then on, so that every step gives the
/// same bits. Allocates its workspace once. Use it on one thread.
///
/// All data must be aligned to 256 bytes, as are allocations of CUDA, the matrices in them, and the parameters and
/// gradients of units. Tensor cores are fast if rows are aligned to 16 bytes, too.
class Matmul {
 public:
  /// Throws SystemError if cuBLASLt is unavailable, ConfigError if the algorithms are for another GPU, cuBLASLt or
  /// precision.
  Matmul(cudaStream_t stream, MatmulOptions const& options);
  ~Matmul();
  Matmul(Matmul const&) = delete;
  Matmul& operator=(Matmul const&) = delete;
  /// Enqueues the product. Throws ContractError for shapes that do not fit and unaligned addresses, SystemError naming
  /// the product if cuBLASLt has no algorithm for it or rejects it. Epilogues with GELU run as a separate kernel after
  /// the product if cuBLASLt has no algorithm for them, and always in fp32. Throws ConfigError, which names the
  /// product, if the algorithms have none for it, or one that cuBLASLt rejects or that needs more memory than there is.
  void operator()(Product const& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpt::gpu
