// SPDX-License-Identifier: Apache-2.0
/// Destinations for the values of a run: TensorBoard, CSV files, or the program's own.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "zeroth/config/settings.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

/// One value of a step.
struct MonitorEvent {
  std::string name;          ///< "Train/Samples/lr".
  double value = 0;          ///< Any value, including NaN.
  std::int64_t samples = 0;  ///< Samples trained on so far, over all ranks; DeepSpeed's axis.
};

/// A destination for values. An engine calls it on rank 0, on the thread that calls step() and finish(), once per step
/// with all events. If it throws, that is logged once, and this monitor is disabled; training continues.
class ZEROTH_EXPORT Monitor {
 public:
  Monitor() = default;  ///< Nothing is written yet.
  Monitor(Monitor const&) = delete;
  Monitor& operator=(Monitor const&) = delete;
  virtual ~Monitor();  ///< Closes it.
  /// Receives all events of a step, possibly none. They are valid during the call only.
  virtual void write(std::span<MonitorEvent const> events) = 0;
};

/// Writes event files for TensorBoard to `output_path`/`job_name`, which is created: a new file for each run, flushed
/// at every step. Throws SystemError naming the file; so does write().
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Monitor> tensorboard_monitor(MonitorSettings const& settings);

/// Writes a CSV file for each name to `output_path`/`job_name`, which is created: "Train_Samples_lr.csv" has the
/// columns "step" (samples) and "lr". A resumed run appends to it. Throws SystemError naming the file; so does write().
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Monitor> csv_monitor(MonitorSettings const& settings);

}  // namespace zeroth
