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
                     "was made without: make it on the CPU. A buffer has to hold there what forward reads; a parameter "
                     "may hold anything if TrainerOptions::start or weights say what it starts with");
  ZEROTH_EXPECTS(device.is_cpu(),
                 what + " is on " + device.str() +
                     ": this adapter has run on CPUs alone, and takes no other module; no GPU has "
                     "tried it yet. module.to(torch::kCPU) brings it there, before the Trainer is made");
}

}  // namespace zeroth::torch_adapter::detail
