// SPDX-License-Identifier: Apache-2.0
/// The training loop on a rank's device.
#pragma once
#include <cstdint>
#include <zeroth/comm/job.hpp>
#include <zeroth/config/config.hpp>

#include "batches.hpp"
#include "options.hpp"
#include "shape.hpp"

namespace gpt {

/// Read-only data that all ranks of this process share.
struct Task {
  Options const& options;
  zeroth::Config const& config;
  Shape const& shape;
  Batches const& batches;
};

/// How a run without failure ends; the same on all ranks.
enum class RunEnd : std::uint8_t {
  done,     ///< Also if it was stopped without a checkpoint to resume from.
  stopped,  ///< Stopped on request before its last step; the last checkpoint has all training so far.
};

RunEnd train_on_cpu(zeroth::Job& job, Task const& task);
RunEnd train_on_gpu(zeroth::Job& job, Task const& task);

}  // namespace gpt
