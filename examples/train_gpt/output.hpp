// SPDX-License-Identifier: Apache-2.0
/// What a run says and writes while it goes on.
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

/// Progress and report, on rank 0; nothing on the others.
class Output {
 public:
  /// Opens the report, so that one that cannot be written is found before training.
  Output(zeroth::Job const& job, Options const& options, Shape const& shape, std::int64_t tokens_per_step);
  /// `facts` is the run's record, `restored` where it goes on from.
  void begin(std::string const& facts, std::optional<zeroth::Restored> const& restored);
  /// Says what multiplies, and `table` if there is one.
  void products(MathChoice const& math, std::string const& table);
  /// `bytes` is what this rank holds.
  void step(zeroth::StepReport const& step, std::int64_t bytes);
  /// The last call. Collective. The run has ended behind step `step`.
  void finish(zeroth::Job& job, RankMemory const& mine, RunEnd end, std::int64_t step);

 private:
  Options const& options_;
  std::int64_t tokens_per_step_;
  std::optional<zeroth::ProgressLine> progress_;
  std::optional<zeroth::WholeFile> report_;
};

}  // namespace gpt
