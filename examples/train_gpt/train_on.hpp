// SPDX-License-Identifier: Apache-2.0
/// The training loop, on a rank's device.
#pragma once
#include <zeroth/comm/job.hpp>
#include <zeroth/config/config.hpp>

#include "batches.hpp"
#include "options.hpp"
#include "shape.hpp"

namespace gpt {

/// What all ranks of this process share, read-only.
struct Task {
  Options const& options;
  zeroth::Config const& config;
  Shape const& shape;
  Batches const& batches;
};

void train_on_cpu(zeroth::Job& job, Task const& task);
void train_on_gpu(zeroth::Job& job, Task const& task);

}  // namespace gpt
