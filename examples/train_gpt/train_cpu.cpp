// SPDX-License-Identifier: Apache-2.0
#include "cpu/micro_steps.hpp"
#include "train.hpp"
#include "train_on.hpp"

namespace gpt {

RunEnd train_on_cpu(zeroth::Job& job, Task const& task) { return train<cpu::OnCpu>(job, task); }

}  // namespace gpt
