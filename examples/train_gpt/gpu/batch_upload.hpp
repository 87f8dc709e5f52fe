// SPDX-License-Identifier: Apache-2.0
/// Micro-batches on their way to the GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "batches.hpp"
#include "gpu/batch.hpp"
#include "gpu/memory.hpp"

namespace gpt::gpu {

/// Copies on the compute stream, from pinned memory. Nothing waits: what a copy reads is not written again before the
/// engine has said that its step is through.
class BatchUpload {
 public:
  /// For micro-batches of `tokens`, of which the GPU is at most `in_flight` behind the host.
  BatchUpload(std::int64_t tokens, std::int64_t vocabulary, std::int64_t in_flight);
  /// Valid until the stream comes to the next call's copy; its loss, for `in_flight` calls.
  [[nodiscard]] DeviceBatch enqueue(Batch const& batch, cudaStream_t stream);

 private:
  [[nodiscard]] std::int64_t words() const noexcept { return 3 * tokens_ + vocabulary_ + 1; }

  std::int64_t tokens_, vocabulary_, in_flight_, next_ = 0;
  Pinned<std::int32_t> host_;  // [in_flight, words]
  Matrix<std::int32_t> device_;
  Matrix<float> losses_;
};

}  // namespace gpt::gpu
