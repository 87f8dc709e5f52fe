// SPDX-License-Identifier: Apache-2.0
/// How the bodies of kernels/ get onto a stream: on_gpu.hpp does it on a GPU, the tests do it on the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace gpt::gpu {

/// In `blocks` blocks, after all that was enqueued on `stream` before. The result is that of the launch. For the bodies
/// that bodies.hpp lists.
template <class Body>
[[nodiscard]] cudaError_t launch(cudaStream_t stream, Body const& body, std::int64_t blocks);

}  // namespace gpt::gpu
