// SPDX-License-Identifier: Apache-2.0
/// Traces a few steps of all ranks.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include <zeroth/comm/job.hpp>
#include <zeroth/device/timeline.hpp>
#include <zeroth/tool/core/whole_file.hpp>

#include "options.hpp"

namespace gpt {

/// Traces up to five steps, after two warm-up steps. Does nothing if no file was requested.
class Trace {
 public:
  Trace(zeroth::Job const& job, Options const& options);
  /// Call before step `step`, from 0, of `steps` remaining ones.
  template <class Engine>
  void before(Engine& engine, std::int64_t step, std::int64_t steps) {
    auto const first = std::clamp<std::int64_t>(steps - 1, 0, settling_steps);
    if (wanted_ && (step == first || step == first + most_steps)) {
      engine.trace(step == first ? &timeline_ : nullptr);
    }
  }
  /// Call after the engine's finish(). Collective.
  void finish(zeroth::Job& job);

 private:
  static constexpr std::int64_t settling_steps = 2, most_steps = 5;
  bool wanted_;
  zeroth::Timeline timeline_;
  std::optional<zeroth::WholeFile> file_;
};

}  // namespace gpt
