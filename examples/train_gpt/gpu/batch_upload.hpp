// SPDX-License-Identifier: Apache-2.0
/// Uploads micro-batches to the GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "batches.hpp"
#include "gpu/batch.hpp"
#include "gpu/memory.hpp"

namespace gpt::gpu {

/// Copies on the compute stream, from pinned memory. Nothing waits: a copy's source is reused only after the engine has
/// reported that its step is complete. Every step's micro-batches have the same addresses, as a StepGraph needs.
class BatchUpload {
 public:
  /// For micro-batches of `tokens` tokens. Steps have `micro_steps` of them, and the GPU is less than two steps behind.
  BatchUpload(std::int64_t tokens, std::int64_t vocabulary, std::int64_t micro_steps);
  /// Valid until the stream reaches the copy that is `micro_steps` calls later.
  [[nodiscard]] DeviceBatch enqueue(Batch const& batch, cudaStream_t stream);

 private:
  [[nodiscard]] std::int64_t words() const noexcept { return 3 * tokens_ + vocabulary_ + 1; }

  std::int64_t tokens_, vocabulary_, micro_steps_, next_ = 0;
  Pinned<std::int32_t> host_;    // [2 * micro_steps, words]
  Matrix<std::int32_t> device_;  // [micro_steps, words]
  Matrix<float> losses_;         // [micro_steps]
};

}  // namespace gpt::gpu
