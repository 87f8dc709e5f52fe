// SPDX-License-Identifier: Apache-2.0
/// From which checkpoint a run goes on, and which it leaves.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <zeroth/data/sample_order.hpp>
#include <zeroth/engine/any_engine.hpp>

#include "options.hpp"

namespace gpt {

/// Before there is a job: makes the folder of --checkpoint, so that a place that cannot be written is found before
/// hours of training. Throws ConfigError if what is in it already would be mixed with this run's, SystemError if it
/// cannot be made or written.
void prepare_checkpoints(Options const& options);

/// All calls are collective.
class Checkpoints {
 public:
  /// `facts` is what every checkpoint keeps of the program. Throws ConfigError for restarts of ranks that are
  /// processes.
  Checkpoints(zeroth::Job& job, Options const& options, zeroth::SampleOrder const& order, std::string facts);
  /// Before the first step: as --resume says, and after a restart from what this run has saved. Nothing if the run
  /// begins. Claims the folder of --checkpoint. Throws ContractError if a checkpoint does not fit.
  [[nodiscard]] std::optional<zeroth::Restored> resume(zeroth::AnyEngine& engine);
  /// Behind step `step`: saves, if it is that time. Once a save of this run was well, one that is not costs itself
  /// only: the engine tells of it, and the next one is another try. Throws SystemError before that.
  void after_step(zeroth::AnyEngine& engine, std::int64_t step);
  /// Nothing comes behind step `step`: saves that, unless it was. Waits until it is on the disk; throws SystemError
  /// where that fails.
  void finish(zeroth::AnyEngine& engine, std::int64_t step);

 private:
  void save(zeroth::AnyEngine& engine, std::int64_t step);
  void settle();

  Options const& options_;
  zeroth::SampleOrder order_;
  std::string facts_;
  std::optional<zeroth::Saving> saving_;  // that nobody has waited for
  std::int64_t last_ = -1;                // step that was saved or restored
  bool was_well_ = false;                 // a save
};

}  // namespace gpt
