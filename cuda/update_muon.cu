// SPDX-License-Identifier: Apache-2.0
#include "cuda/gpu_block.hpp"
#include "cuda/kernels/update.hpp"
#include "cuda/update_rules.hpp"

namespace zeroth::cuda {

cudaError_t update_by(optim::MuonUpdate const& rule, cudaStream_t stream, optim::UpdateArgs const& args) {
  return launch_rule(OnStream{stream}, args, rule);
}

}  // namespace zeroth::cuda
