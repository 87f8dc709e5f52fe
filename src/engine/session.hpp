// SPDX-License-Identifier: Apache-2.0
/// How far the training of an engine is: which calls were made, what they added up, and where it is reported.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/call_guard.hpp"
#include "engine/checkpoints.hpp"
#include "engine/protocol.hpp"
#include "engine/reporting.hpp"
#include "engine/step_accumulator.hpp"

namespace zeroth::engine {

struct Session {
  Session(bool check, device::Device& device) : thread_check{check, device} {}

  /// Rank 0 claims `folder`: no other job saves there from now on. Throws SystemError.
  void claim(std::filesystem::path const& folder);
  /// Before anything but an update writes to this rank's states.
  void await_saved() const;

  std::optional<Protocol> protocol;
  std::optional<StepAccumulator> accumulator;
  ThreadCheck thread_check;
  float gradient_prescale = 1;
  float first_run_loss = 0;  ///< Of the last micro-step that ran twice.
  bool finished = false;     ///< finish() was called, and no pass has begun since: nothing is under way.
  bool told_nonfinite = false;
  std::vector<std::string> metrics;                 ///< Their names.
  std::int64_t samples = 0;                         ///< That completed steps have taken, over all ranks.
  std::int64_t first_step = 0;                      ///< The last one before those that this engine has run.
  std::string stage_file;                           ///< Resolved.
  std::uint64_t run_id = 0;                         ///< Random, the same on all ranks.
  std::optional<StepReport> kept_report;            ///< That finish() owes, and had no way to give.
  std::unique_ptr<Reporter> reporter;               ///< On rank 0.
  std::unique_ptr<checkpoint::FolderLock> claimed;  ///< Of rank 0, by claim().
  std::unique_ptr<Checkpoints> checkpoints;         ///< From the first save on; ends before all else.
};

}  // namespace zeroth::engine
