// SPDX-License-Identifier: Apache-2.0
/// The line that tells a person how far a training is.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "zeroth/core/export.hpp"
#include "zeroth/engine/report.hpp"

namespace zeroth {

/// What a report does not know. What is 0 is left out of the line.
struct ProgressOptions {
  std::int64_t steps = 0;            ///< Of the whole run: what is left of it.
  std::int64_t tokens_per_step = 0;  ///< On all ranks together.
  double flops_per_step = 0;         ///< Useful ones on all ranks together, of forward and backward.
  double peak_flops_per_s = 0;       ///< Of the processors of all ranks together: what MFU is a fraction of.
};

/// On standard output: step, loss, rate, norm, tokens and floating-point operations per second, memory, elapsed and
/// left. On a terminal one line, which every step writes over, with as many of these as its width has room for now;
/// anywhere else (terminal_at()) a whole line for each step. Where the library's log, write_error() or write_output()
/// say something meanwhile, that begins a line of its own.
///
/// Does not wait for who reads it: beyond 64 KiB that nobody has read lines are left out, and counted on standard error
/// at the end. One rank has one, on one thread.
class ZEROTH_EXPORT ProgressLine {
 public:
  /// Time counts from here. Throws SystemError where there is no thread that could write.
  explicit ProgressLine(ProgressOptions const& options);
  ProgressLine(ProgressLine const&) = delete;
  ProgressLine& operator=(ProgressLine const&) = delete;
  /// Ends the line. Waits for the reader as long as it goes on reading, up to two seconds for each line.
  ~ProgressLine();
  /// A step of which `bytes` are the memory of this rank: AnyEngine::peak() has them. Takes some microseconds.
  void show(StepReport const& report, std::int64_t bytes = 0);
  /// Whole lines of the program's own, each with its end, below what is there.
  void say(std::string lines);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zeroth
