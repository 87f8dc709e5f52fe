// SPDX-License-Identifier: Apache-2.0
/// update() by the rule of `args`, for each rule: their kernels are many, and compile side by side.
#pragma once
#include <cuda_runtime_api.h>

#include "zeroth/optim/update.hpp"

namespace zeroth::cuda {

cudaError_t update_by(optim::Adam const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Sgd const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Momentum const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Adagrad const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::RmsProp const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::RmsPropMomentum const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Lion const& rule, cudaStream_t stream, optim::UpdateArgs const& args);

}  // namespace zeroth::cuda
