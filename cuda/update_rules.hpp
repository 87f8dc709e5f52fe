// SPDX-License-Identifier: Apache-2.0
/// update() for each rule. There are many kernels, so each rule has its own file, and files compile in parallel.
#pragma once
#include <cuda_runtime_api.h>

#include "optim/muon_element.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::cuda {

cudaError_t update_by(optim::Adam const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Sgd const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Momentum const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Adagrad const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::RmsProp const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::RmsPropMomentum const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Lamb const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::Lion const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::OneBitAdam const& rule, cudaStream_t stream, optim::UpdateArgs const& args);
cudaError_t update_by(optim::MuonUpdate const& rule, cudaStream_t stream, optim::UpdateArgs const& args);

}  // namespace zeroth::cuda
