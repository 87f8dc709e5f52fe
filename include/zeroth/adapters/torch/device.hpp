// SPDX-License-Identifier: Apache-2.0
/// The devices that a module's tensors may be on.
#pragma once
#include <torch/torch.h>

#include <string>

#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter::detail {

/// Throws ContractError for any device but the CPU. `what` names the tensor in messages: `buffer "mask"`.
inline void expect_on_cpu(std::string const& what, c10::Device device) {
  ZEROTH_EXPECTS(!device.is_meta(),
                 what +
                     " is on the device meta, where it has no values, and libtorch cannot give memory to a tensor that "
                     "was made without: make it on the CPU, within deferred_init() if all units together exceed a "
                     "rank's memory. A buffer must then hold what forward reads; a parameter "
                     "may hold anything if TrainerOptions::start or weights give its initial values");
  ZEROTH_EXPECTS(device.is_cpu(), what + " is on " + device.str() +
                                      ": this adapter supports CPUs only, and has not been run on a GPU. Call "
                                      "module.to(torch::kCPU) before the Trainer is made");
}

}  // namespace zeroth::torch_adapter::detail
