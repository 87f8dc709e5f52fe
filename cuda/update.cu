// SPDX-License-Identifier: Apache-2.0
#include "cuda/update_rules.hpp"

#include "cuda/kernels/update.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t update(cudaStream_t stream, optim::UpdateArgs const& args) {
  return with_rule(args, [&](auto const& rule) { return update_by(rule, stream, args); });
}

}  // namespace zeroth::cuda
