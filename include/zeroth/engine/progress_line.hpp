// SPDX-License-Identifier: Apache-2.0
/// The line that shows the progress of training.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "zeroth/core/export.hpp"
#include "zeroth/engine/report.hpp"

namespace zeroth {

/// Values that a report does not contain. A value of 0 is left out of the line.
struct ProgressOptions {
  std::int64_t steps = 0;            ///< Steps of the whole run, for the time left.
  std::int64_t tokens_per_step = 0;  ///< Over all ranks.
  double flops_per_step = 0;         ///< Model FLOPs of forward and backward over all ranks.
  double peak_flops_per_s = 0;       ///< Peak of the processors of all ranks; MFU is a fraction of it.
};

/// Prints step, loss, learning rate, norm, tokens and floating-point operations per second, memory, elapsed time and
/// time left to standard output. On a terminal this is one line, overwritten by every step, with as many of these as
/// fit its current width; elsewhere (see terminal_at()) it is a new line for each step. Output of the library's log,
/// write_error() or write_output() begins a line of its own.
///
/// Does not wait for its reader: if 64 KiB are unread, it drops lines, and reports their number on standard error at
/// the end. Use it on one rank and one thread.
class ZEROTH_EXPORT ProgressLine {
 public:
  /// Starts the clock. Throws SystemError if the thread that writes cannot be started.
  explicit ProgressLine(ProgressOptions const& options);
  ProgressLine(ProgressLine const&) = delete;
  ProgressLine& operator=(ProgressLine const&) = delete;
  /// Ends the line. Waits for the reader while it still reads, up to two seconds per line.
  ~ProgressLine();
  /// Shows a step. `bytes` is this rank's memory, such as AnyEngine::peak(). Takes a few microseconds.
  void show(StepReport const& report, std::int64_t bytes = 0);
  /// Prints complete lines of the program, each with its line break, below the progress line.
  void say(std::string lines);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zeroth
