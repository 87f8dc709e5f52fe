// SPDX-License-Identifier: Apache-2.0
/// Replaces cudnn_attention.cpp if the headers of cuDNN or cudnn-frontend were not found.
#include "gpu/cudnn_attention.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {

namespace {

[[noreturn]] void refuse() {
  throw zeroth::ConfigError{
      "--attention cudnn: train_gpt was built without cuDNN; allowed: own. Install the headers (pip install "
      "nvidia-cudnn-frontend nvidia-cudnn-cu13), name the folder site-packages in CMAKE_PREFIX_PATH, and build again"};
}

}  // namespace

struct CudnnAttention::State {};

CudnnAttention::CudnnAttention(cudaStream_t /*stream*/, CudnnShape const& /*shape*/) { refuse(); }
CudnnAttention::~CudnnAttention() = default;
void CudnnAttention::forward(CudnnShape const& /*shape*/, void const* /*qkv*/, float* /*log_sums*/, void* /*y*/) {
  refuse();
}
void CudnnAttention::backward(CudnnShape const& /*shape*/, void const* /*qkv*/, void const* /*y*/,
                              float const* /*log_sums*/, void const* /*dy*/, void* /*dqkv*/) {
  refuse();
}
std::int64_t CudnnAttention::workspace_bytes() const { refuse(); }
std::string load_cudnn_attention() { refuse(); }
std::int64_t plan_without_gpu(CudnnShape const& /*shape*/, int /*sm*/, std::string const& /*properties*/) { refuse(); }

}  // namespace gpt::gpu
