// SPDX-License-Identifier: Apache-2.0
/// Calls between the steps of a chain of layers, without a mesh or in a pipeline.
#pragma once
#include "pipeline.hpp"

namespace zeroth::testing {

/// Alternates between the schedules for which Chain has enough units, with two chunks per stage for schedules with
/// chunks.
inline std::string schedule_of(int stages, int turn) {
  constexpr char const* all[] = {"1f1b", "gpipe", "zb_h1", "interleaved_1f1b"};
  return all[turn % (stages == 2 ? 4 : 3)];
}

/// Runs forward through the units of this stage, in training or in an evaluation.
template <class T>
Rows go_forward(StagePass<T>& pass, Chain const& chain, std::int64_t samples) {
  auto rows = pass.first() ? batch_at<T>(pass.first_sample(), samples, 12) : rows_of(pass.input());
  for (auto const unit : pass.units()) {
    auto const p = pass.forward(unit);
    rows = apply<T>(chain.layers[unit.index()], p, rows);
  }
  return rows;
}

/// Returns the mean loss of `passes` batches. If `leave_after` is not negative, leaves after so many passes, before the
/// next one has done anything; there is no mean then.
template <class T, class G>
float evaluate(Engine<T, G>& engine, Chain const& chain, int passes, int leave_after = -1) {
  auto const samples = engine.micro_batch();
  auto const evaluation = engine.evaluation(passes);
  int done = 0;
  for (auto pass : evaluation) {
    if (done++ == leave_after) {
      return 0;
    }
    auto const rows = go_forward(pass, chain, samples);
    if (pass.last()) {
      pass.report_loss(loss_of(rows, batch_at<T>(pass.first_sample(), samples, 12)));
    } else {
      put(rows, pass.output());
    }
  }
  return evaluation.mean_loss();
}

}  // namespace zeroth::testing
