// SPDX-License-Identifier: Apache-2.0
/// Runs of the synthetic model, split in two by a checkpoint.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "parity/stage_files.hpp"
#include "parity/train.hpp"
#include "saved.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {

/// Saves after step `at` of `last`, and waits for it.
inline TrainOptions saving(std::filesystem::path const& folder, int at, int last) {
  TrainOptions options;
  options.steps = last;
  options.after_step = [=](AnyEngine& engine, int step) {
    if (step == at) {
      engine.save(folder).wait();
    }
  };
  return options;
}

/// Resumes from a checkpoint, trains to step `last`, and saves.
inline TrainOptions resuming(std::filesystem::path const& from, int last, std::filesystem::path const& into) {
  auto options = saving(into, last, last);
  options.begin = [=](AnyEngine& engine) { return static_cast<int>(engine.restore(from).step); };
  return options;
}

/// Bits of the reports after step `step`, and of the weights.
inline std::vector<std::uint32_t> bits_behind(std::int64_t step, Trained trained) {
  std::erase_if(trained.reports, [&](StepReport const& report) { return report.step <= step; });
  trained.evaluations.clear();
  return bits_of(trained);
}

/// A stage file of the parity tests with settings that differ as much as possible between stages.
inline std::string varied_file(Types const& types, int stage, char const* optimizer = nullptr, int accumulation = 2) {
  auto const& move = movements[stage];
  return optimizer == nullptr ? file(types, stage, accumulation, "every_micro_step", move)
                              : file(types, stage, accumulation, "every_micro_step", move, "", optimizer);
}

}  // namespace zeroth::testing
