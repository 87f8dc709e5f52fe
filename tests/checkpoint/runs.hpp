// SPDX-License-Identifier: Apache-2.0
/// Runs of the synthetic model that are cut in two by a checkpoint.
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

/// Goes on from a checkpoint to step `last`, and saves that.
inline TrainOptions resuming(std::filesystem::path const& from, int last, std::filesystem::path const& into) {
  auto options = saving(into, last, last);
  options.begin = [=](AnyEngine& engine) { return static_cast<int>(engine.restore(from).step); };
  return options;
}

/// Of reports of steps behind `step`, and of weights.
inline std::vector<std::uint32_t> bits_behind(std::int64_t step, Trained trained) {
  std::erase_if(trained.reports, [&](StepReport const& report) { return report.step <= step; });
  trained.evaluations.clear();
  return bits_of(trained);
}

/// A stage file of the parity tests, in which most differs between stages that may.
inline std::string varied_file(Types const& types, int stage, char const* optimizer = nullptr, int accumulation = 2) {
  auto const& move = movements[stage];
  return optimizer == nullptr ? file(types, stage, accumulation, "every_micro_step", move)
                              : file(types, stage, accumulation, "every_micro_step", move, "", optimizer);
}

}  // namespace zeroth::testing
