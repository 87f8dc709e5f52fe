// SPDX-License-Identifier: Apache-2.0
/// The iteration of Newton and Schulz on a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include "device/cuda_products.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::device {

/// Enqueues optim::orthogonalise(), with cuBLASLt's products. `args.workspace` has the pieces of
/// gpu_matrix_workspace(). If `skip` is set, the matrix becomes 0. Returns the error of the kernels' launches; throws
/// as CudaProducts does.
[[nodiscard]] cudaError_t orthogonalise(cudaStream_t stream, optim::OrthogonalArgs const& args, CudaProducts& products);

}  // namespace zeroth::device
