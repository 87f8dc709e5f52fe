// SPDX-License-Identifier: Apache-2.0
/// The checkpoint that a run resumes from, and those that it saves.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <zeroth/data/sample_order.hpp>
#include <zeroth/engine/any_engine.hpp>

#include "options.hpp"

namespace gpt {

/// Creates the folder of --checkpoint before there is a job, so that an unwritable place is found before hours of
/// training. Throws ConfigError if existing checkpoints would be mixed with this run's, SystemError if the folder
/// cannot be created or written.
void prepare_checkpoints(Options const& options);

/// All calls are collective.
class Checkpoints {
 public:
  /// `facts` is stored in every checkpoint as the program's state. Throws ConfigError if restarts are requested and
  /// ranks are processes.
  Checkpoints(zeroth::Job& job, Options const& options, zeroth::SampleOrder const& order, std::string facts);
  /// Restores before the first step: from --resume, or after a restart from this run's own checkpoints. Returns nullopt
  /// if the run starts from the beginning. Locks the folder of --checkpoint. Throws ContractError if a checkpoint does
  /// not fit.
  [[nodiscard]] std::optional<zeroth::Restored> resume(zeroth::AnyEngine& engine);
  /// Call after step `step`: saves if a save is due. `elapsed_s` is StepReport's. Throws SystemError if a save failed
  /// and none of this run succeeded before. Later failures are only logged, by the engine, and the next save tries
  /// again.
  void after_step(zeroth::AnyEngine& engine, std::int64_t step, double elapsed_s);
  /// Call after step `step`, the last one: saves it unless that was done. Waits until it is on the disk; throws
  /// SystemError if that fails.
  void finish(zeroth::AnyEngine& engine, std::int64_t step);

 private:
  void save(zeroth::AnyEngine& engine, std::int64_t step);
  void settle();

  Options const& options_;
  zeroth::SampleOrder order_;
  std::string facts_;
  std::optional<zeroth::Saving> saving_;  // nothing has waited for it yet
  std::int64_t last_ = -1;                // step last saved or restored
  double saved_at_s_ = 0;                 // `elapsed_s` of the last save in after_step()
  bool was_well_ = false;                 // a save has succeeded
};

}  // namespace gpt
