// SPDX-License-Identifier: Apache-2.0
#include "cpu_math.hpp"
#include "train.hpp"
#include "train_on.hpp"

namespace gpt {

void train_on_cpu(zeroth::Job& job, Task const& task) { train<OnCpu>(job, task); }

}  // namespace gpt
