// SPDX-License-Identifier: Apache-2.0
/// The progress of an engine's training: its calls, their sums, and its reports.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/call_guard.hpp"
#include "engine/checkpoints.hpp"
#include "engine/own_times.hpp"
#include "engine/protocol.hpp"
#include "engine/reporting.hpp"
#include "engine/step_accumulator.hpp"
#include "zeroth/core/clock.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::engine {

class StepRecording;

/// Counts of steps that were launched as graphs, which EngineCounters include.
struct LaunchedCounts {
  shard::MovedBytes gathered, reduced;
  std::int64_t prefetch_misses = 0;
};

struct Session {
  Session(bool check, device::Device& device) : thread_check{check, device} {}

  /// Locks `folder` for this job on rank 0, so that no other job saves there. Throws SystemError.
  void claim(std::filesystem::path const& folder);
  /// Call before anything but an update writes to this rank's states.
  void await_saved() const;

  std::optional<Protocol> protocol;
  std::optional<StepAccumulator> accumulator;
  ThreadCheck thread_check;
  Clock::time_point const began = Clock::now();
  float gradient_prescale = 1;
  float first_run_loss = 0;  ///< Loss of the last micro-step that ran twice.
  bool finished = false;     ///< finish() was called and no pass has begun since: nothing is in flight.
  bool told_nonfinite = false;
  bool traced = false;                 ///< trace() has set a timeline.
  StepRecording* recording = nullptr;  ///< While a StepGraph records.
  std::uint64_t factors_taken = 0;     ///< How often learning-rate factors have changed.
  LaunchedCounts launched;
  std::vector<std::string> metrics;                     ///< Their names.
  std::int64_t samples = 0;                             ///< Samples of completed steps, over all ranks.
  std::int64_t first_step = 0;                          ///< The step before the first one that this engine has run.
  std::string stage_file;                               ///< Resolved.
  std::uint64_t run_id = 0;                             ///< Random, the same on all ranks.
  std::vector<device::Stream const*> activation_waits;  ///< Streams that count the waits of the program's
                                                        ///< ActivationStores.
  double ended_activation_ms = 0;                       ///< Waits of stores that were destroyed.
  std::optional<StepReport> kept_report;                ///< The report that finish() still owes, because it threw.
  std::unique_ptr<Reporter> reporter;                   ///< On rank 0.
  OwnTimes own_times;                                   ///< For the reporter's lines.
  /// Factors of learning rates by parameter, which the next step() takes over.
  std::vector<std::pair<ParamId, float>> rate_factors;
  std::unique_ptr<checkpoint::FolderLock> claimed;  ///< The lock of claim(), on rank 0.
  std::unique_ptr<Checkpoints> checkpoints;         ///< Made by the first save; destroyed before all else.
};

}  // namespace zeroth::engine
