// SPDX-License-Identifier: Apache-2.0
/// Products of bf16 or fp16 matrices on a GPU, by cuBLASLt.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "zeroth/core/dtype.hpp"

namespace zeroth::device {

/// result = factor op(left) op(right) + addend_factor addend. Matrices are column-major, without gaps, and aligned to
/// 256 bytes. Sums are fp32.
struct CudaProduct {
  void const* left;
  void const* right;
  void const* addend;  ///< [rows, columns]; any memory of this size if its factor is 0
  void* result;        ///< [rows, columns], apart from the others
  bool transposes_left, transposes_right;
  std::int64_t rows, inner, columns;
  float factor, addend_factor;
  Dtype dtype = Dtype::bf16;  ///< The dtype of all matrices: bf16 or fp16.
};

/// Uses one algorithm per shape, chosen at its first use and kept from then on, so that every step gives the same bits.
/// Use it on one thread, whose current GPU is that of the streams.
class CudaProducts {
 public:
  /// Loads cuBLASLt. Throws SystemError if that fails, or if the library was built without it.
  CudaProducts();
  ~CudaProducts();
  CudaProducts(CudaProducts const&) = delete;
  CudaProducts& operator=(CudaProducts const&) = delete;
  /// Enqueues the product. `workspace`: [cublas_lt_bytes], aligned to 256 bytes. Throws SystemError naming the product
  /// if cuBLASLt has no algorithm for it or rejects it.
  void enqueue(cudaStream_t stream, CudaProduct const& product, std::byte* workspace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zeroth::device
