// SPDX-License-Identifier: Apache-2.0
#include "train.hpp"
#include "gpu/training.hpp"
#include "train_on.hpp"

namespace gpt {

RunEnd train_on_gpu(zeroth::Job& job, Task const& task) { return train<gpu::OnGpu>(job, task); }

}  // namespace gpt
