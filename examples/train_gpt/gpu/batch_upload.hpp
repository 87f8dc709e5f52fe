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
/// reported that its step is complete.
class BatchUpload {
 public:
  /// For micro-batches of `tokens` tokens. The GPU lags behind the host by at most `in_flight` micro-batches.
  BatchUpload(std::int64_t tokens, std::int64_t vocabulary, std::int64_t in_flight);
  /// Valid until the stream reaches the next call's copy; its loss stays valid for `in_flight` calls.
  [[nodiscard]] DeviceBatch enqueue(Batch const& batch, cudaStream_t stream);

 private:
  [[nodiscard]] std::int64_t words() const noexcept { return 3 * tokens_ + vocabulary_ + 1; }

  std::int64_t tokens_, vocabulary_, in_flight_, next_ = 0;
  Pinned<std::int32_t> host_;  // [in_flight, words]
  Matrix<std::int32_t> device_;
  Matrix<float> losses_;
};

}  // namespace gpt::gpu
