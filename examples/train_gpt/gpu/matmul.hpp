// SPDX-License-Identifier: Apache-2.0
/// Products of row-major matrices on a stream, by cuBLASLt.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "zeroth/core/dtype.hpp"

namespace gpt::gpu {

/// A matrix that is read: `rows` x `cols` as it lies in memory, with rows that begin `stride` elements apart.
struct Operand {
  void const* data;
  zeroth::Dtype dtype;
  std::int64_t rows, cols, stride;
  bool transposed = false;
};

/// A matrix that is written. Its shape is the product's.
struct Result {
  void* data;
  zeroth::Dtype dtype;
  std::int64_t stride;
};

enum class Epilogue : std::uint8_t {
  none,
  bias,        ///< + bias, one per column
  bias_gelu,   ///< + bias, which goes to `inner`; then GELU of that to `out`
  gelu_slope,  ///< times the slope of GELU at `inner`
};

/// out = epilogue(op(a) op(b) + beta * addend), summed in fp32 and rounded once. All data begin at multiples of 256
/// bytes, as CUDA's memory, the matrices in it and the parameters and gradients of units do. Fast on tensor cores where
/// rows begin at multiples of 16 bytes, too.
struct Product {
  Operand a, b;
  Result out;
  float beta = 0;
  void const* addend = nullptr;  ///< Laid out as `out`; null: what is in `out`.
  Epilogue epilogue = Epilogue::none;
  void const* bias = nullptr;  ///< In the type of `out`.
  void* inner = nullptr;       ///< Laid out as `out`, which has no gaps between rows then.
};

struct MatmulOptions {
  bool tf32 = false;  ///< fp32 factors may be rounded to TF32.
};

/// One algorithm per kind of product, chosen when it is asked for first and the same from then on: the same bits in
/// every step. Its workspace is allocated once. Belongs to one thread.
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
