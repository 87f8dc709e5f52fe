// SPDX-License-Identifier: Apache-2.0
/// Launches the bodies of kernels/ on a stream: on_gpu.hpp does it on a GPU, the tests do it on the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace gpt::gpu {

/// Enqueues `body` on `stream` in `blocks` blocks. Returns the result of the launch. Works for the bodies that
/// bodies.hpp lists.
template <class Body>
[[nodiscard]] cudaError_t launch(cudaStream_t stream, Body const& body, std::int64_t blocks);

}  // namespace gpt::gpu
