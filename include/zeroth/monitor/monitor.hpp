// SPDX-License-Identifier: Apache-2.0
/// Where the numbers of a run go: TensorBoard, comma-separated values, or what a program brings.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "zeroth/config/settings.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

/// One number of a step.
struct MonitorEvent {
  std::string name;          ///< "Train/Samples/lr".
  double value = 0;          ///< Any, NaN too.
  std::int64_t samples = 0;  ///< Trained on so far, over all ranks: the axis that DeepSpeed uses.
};

/// A sink of numbers. An engine calls it on rank 0, from the thread that calls step() and finish(), with all events of
/// a step at once. What it throws is told once, and ends the monitor, not training.
class ZEROTH_EXPORT Monitor {
 public:
  Monitor() = default;  ///< Of nothing yet.
  Monitor(Monitor const&) = delete;
  Monitor& operator=(Monitor const&) = delete;
  virtual ~Monitor();  ///< Ends it.
  /// All of a step, which may be none. They are the caller's.
  virtual void write(std::span<MonitorEvent const> events) = 0;
};

/// An event file that TensorBoard opens, in `output_path`/`job_name`, which is made: a new file for each run. Written
/// through with every step. Throws SystemError naming the file, as write() does.
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Monitor> tensorboard_monitor(MonitorSettings const& settings);

/// A file for each name, in `output_path`/`job_name`, which is made: "Train_Samples_lr.csv" with the columns "step"
/// (samples) and "lr". A run that goes on adds lines. Throws SystemError naming the file, as write() does.
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Monitor> csv_monitor(MonitorSettings const& settings);

}  // namespace zeroth
