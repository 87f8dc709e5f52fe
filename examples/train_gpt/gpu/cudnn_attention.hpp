// SPDX-License-Identifier: Apache-2.0
/// Causal attention by cuDNN.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "attention_heads.hpp"
#include "zeroth/core/dtype.hpp"

namespace gpt::gpu {

/// What a plan of cuDNN is for.
struct CudnnShape {
  zeroth::Dtype dtype;     ///< bf16 or fp16.
  std::int64_t sequences;  ///< Of a micro-batch.
  AttentionHeads heads;    ///< Of this rank, without a layout.
  bool operator==(CudnnShape const&) const = default;
};
/// "bf16, 4 sequences of 1024 tokens, 25 heads of 64 channels"
[[nodiscard]] std::string describe(CudnnShape const& shape);

/// Two plans, forward and backward, which are built once and give the same bits in every step. Enqueues on one stream.
/// Use it on one thread.
class CudnnAttention {
 public:
  /// Loads cuDNN, builds the plans and allocates their workspace. Throws SystemError, which names the shape, if cuDNN
  /// is missing or too old, or has no deterministic plan; ConfigError if train_gpt was built without cuDNN.
  CudnnAttention(cudaStream_t stream, CudnnShape const& shape);
  ~CudnnAttention();
  CudnnAttention(CudnnAttention const&) = delete;
  CudnnAttention& operator=(CudnnAttention const&) = delete;

  /// qkv: [tokens, 3 * channels], y: [tokens, channels]. log_sums has one number per sequence, head and token, in this
  /// order: the natural logarithm of the sum of exp(scale * score). All of it is enqueued, and nothing allocated.
  /// Throws ContractError for other shapes and for addresses that are not aligned to 16 bytes.
  void forward(CudnnShape const& shape, void const* qkv, float* log_sums, void* y);
  /// Overwrites dqkv.
  void backward(CudnnShape const& shape, void const* qkv, void const* y, float const* log_sums, void const* dy,
                void* dqkv);

  /// The memory that both plans share, in bytes.
  [[nodiscard]] std::int64_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Loads cuDNN. Returns "cuDNN 9.28.1". Throws SystemError if there is none that suits, ConfigError if train_gpt was
/// built without cuDNN.
[[nodiscard]] std::string load_cudnn_attention();

/// Builds the plans for a GPU that is absent, of compute capability `sm`, such as 90, with the properties that cuDNN
/// writes as JSON. Returns the bytes of workspace. Throws SystemError as the constructor of CudnnAttention does.
[[nodiscard]] std::int64_t plan_without_gpu(CudnnShape const& shape, int sm, std::string const& properties);

}  // namespace gpt::gpu
