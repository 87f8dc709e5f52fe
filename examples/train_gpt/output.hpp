// SPDX-License-Identifier: Apache-2.0
/// What a run says and writes while it goes on.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <zeroth/comm/job.hpp>
#include <zeroth/core/whole_file.hpp>

#include "math_library.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"

namespace gpt {

/// Progress and report, on rank 0; nothing on the others.
class Output {
 public:
  /// `run` is the report's first record.
  Output(zeroth::Job const& job, Options const& options, std::int64_t tokens_per_step, std::string const& run);
  /// Says what multiplies, and `table` if there is one.
  void products(MathChoice const& math, std::string const& table);
  /// `bytes` is what this rank holds.
  void step(zeroth::StepReport const& step, std::int64_t bytes);
  /// The last call. Collective.
  void finish(zeroth::Job& job, RankMemory const& mine);

 private:
  std::int64_t tokens_per_step_;
  std::optional<Progress> progress_;
  std::optional<zeroth::WholeFile> report_;
};

}  // namespace gpt
