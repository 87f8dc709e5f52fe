// SPDX-License-Identifier: Apache-2.0
/// What all ranks decide about a step, and the update of this rank's share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/memory.hpp"
#include "shard/step_memory.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::shard {

/// Decisions run on the reduce stream, updates on the compute stream.
class Optimizer {
 public:
  /// Waits. `loss_scale` is that of the first loss.
  Optimizer(Memory& memory, optim::LossScaleState const& loss_scale);

  /// Sums `mine`, to which `losses` are added on the device, over ranks, and turns the sums into the step's scalars:
  /// see StepMemory. `parity` of results(): 0 and 1 by turns.
  void decide(optim::StepSums const& mine, std::span<optim::LossTerm const> losses, optim::StepRules const& rules,
              std::size_t parity);
  /// Makes the compute stream wait for decide().
  void await_decision();
  /// After await_decision(), and once no rank reads what this one is about to write: Parameters::await_gathers().
  void update(FlatId flat);
  /// As decide, for the loss of evaluation passes alone. Waits.
  [[nodiscard]] optim::StepSums sum_evaluation(optim::StepSums const& mine);
  /// The sums that decide() will make, ahead of it. Waits.
  [[nodiscard]] optim::StepSums sum_step(optim::StepSums const& mine, std::span<optim::LossTerm const> losses);
  /// Ranks add up the sums of this many metrics from now on. The same on all of them.
  void set_metrics(std::size_t count) noexcept { metric_count_ = count; }
  /// Results of the last two decide()s, by parity. Waits until they can be read.
  [[nodiscard]] StepResults const& results();
  /// The parity of the last decide(); below 0: there was none, and StepResults::initial has what it would have left.
  [[nodiscard]] int last_decision() const noexcept { return last_decision_; }
  /// As if the last step had left these. Waits.
  void restore(std::int64_t applied, optim::LossScaleState const& loss_scale);
  /// Of every flat unit, called by update() on the host before anything is enqueued: until whoever reads its states has
  /// done so. Empty: nobody does.
  void set_before_update(std::function<void(FlatId)> action) { before_update_ = std::move(action); }
  /// Of the next loss. Waits for the last decide() if the scale is dynamic, and for nothing otherwise.
  [[nodiscard]] float loss_scale();

 private:
  /// What is updated by one call of a kernel: elements that begin so far behind a stretch's first one.
  struct Piece {
    std::int64_t before, count;
    std::vector<optim::Segment> segments;
  };
  /// Elements, from the first that the optimizer holds, whose states come from their home together. Parameters may come
  /// by less at a time.
  struct Stretch {
    Range elements;
    StateHome* states;
    std::vector<Piece> pieces;
  };
  void begin_states();
  void cut_stretches();
  void sum_over_stages(std::string_view purpose, optim::StepSums& mine, optim::StepSums& total);
  [[nodiscard]] optim::StepSums sum(std::string_view purpose, std::span<float const> block_sums,
                                    optim::StepSums const& mine, std::span<optim::LossTerm const> losses);

  Memory* memory_;
  device::Stream* stream_;
  comm::Communicator* comm_;
  StepMemory* step_;  // on the device
  std::unique_ptr<device::Memory> host_;
  StepResults* results_;
  StateHome in_memory_;
  ById<FlatId, std::vector<Stretch>> stretches_;
  std::size_t metric_count_ = 0;
  std::unique_ptr<device::Event> decided_;
  std::function<void(FlatId)> before_update_;
  int last_decision_ = -1;
  std::int64_t last_decided_ = -1;  // parity of the last decide() with a dynamic loss scale
};

}  // namespace zeroth::shard
