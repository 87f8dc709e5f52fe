#include "cuda/kernels/adamw.hpp"

#include "cuda/gpu_block.hpp"
#include "cuda/launch.hpp"

namespace zeroth::cuda {

cudaError_t adamw(cudaStream_t stream, optim::AdamwArgs const& args) { return launch_adamw(OnStream{stream}, args); }

}  // namespace zeroth::cuda
