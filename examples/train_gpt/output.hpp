// SPDX-License-Identifier: Apache-2.0
/// Prints progress and writes the report during a run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <zeroth/comm/job.hpp>
#include <zeroth/engine/checkpoint.hpp>
#include <zeroth/engine/progress_line.hpp>
#include <zeroth/tool/core/whole_file.hpp>

#include "math_library.hpp"
#include "options.hpp"
#include "report.hpp"
#include "shape.hpp"
#include "train_on.hpp"

namespace gpt {

/// Progress and report on rank 0; does nothing on the others.
class Output {
 public:
  /// Opens the report, so that an unwritable file is found before training.
  Output(zeroth::Job const& job, Options const& options, Shape const& shape, std::int64_t tokens_per_step);
  /// `facts` is the run's record; `restored` is the checkpoint that it resumes from.
  void begin(std::string const& facts, std::optional<zeroth::Restored> const& restored);
  /// Prints the matrix library, and `table` if there is one.
  void products(MathChoice const& math, std::string const& table);
  /// `bytes` is this rank's memory use.
  void step(zeroth::StepReport const& step, std::int64_t bytes);
  /// The last call. Collective. The run has ended after step `step`.
  void finish(zeroth::Job& job, RankMemory const& mine, RunEnd end, std::int64_t step);

 private:
  Options const& options_;
  std::int64_t tokens_per_step_;
  std::optional<zeroth::ProgressLine> progress_;
  std::optional<zeroth::WholeFile> report_;
};

}  // namespace gpt
