// SPDX-License-Identifier: Apache-2.0
/// The training loop, on a rank's device.
#pragma once
#include <cstdint>
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

/// How a run ends that does not fail; the same on all ranks.
enum class RunEnd : std::uint8_t {
  done,     ///< Also where it was stopped and nothing is saved that it could go on from.
  stopped,  ///< Before its last step, because somebody asked for it; the last checkpoint has all that was trained.
};

RunEnd train_on_cpu(zeroth::Job& job, Task const& task);
RunEnd train_on_gpu(zeroth::Job& job, Task const& task);

}  // namespace gpt
