// SPDX-License-Identifier: Apache-2.0
/// The decision of all ranks on a step, and the update of this rank's share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/encoded_momenta.hpp"
#include "shard/matrix_directions.hpp"
#include "shard/memory.hpp"
#include "shard/parameter_norms.hpp"
#include "shard/step_memory.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::shard {

/// Decisions run on the reduce stream, updates on Memory::update_stream().
class Optimizer {
 public:
  /// Waits. `loss_scale` is the one of the first loss.
  Optimizer(Memory& memory, optim::LossScaleState const& loss_scale);

  /// Adds `losses` to `mine` on the device, sums it over ranks, and computes the step's scalars from the sums: see
  /// StepMemory. `parity` alternates between 0 and 1 and selects the place in results().
  void decide(optim::StepSums const& mine, std::span<optim::LossTerm const> losses, optim::StepRules const& rules,
              std::size_t parity);
  /// Before a graph with a decide() is launched: gives it `mine`, this rank's contribution to the step.
  void prepare_launch(optim::StepSums const& mine, optim::StepRules const& rules, std::size_t parity);
  /// After the launch of a graph with a decide(): results() and loss_scale() wait for all of the graph.
  void note_launch() { memory_->compute().record(*decided_); }
  /// Like decide(), by sums that a worker has sent.
  void decide_by(optim::StepSums const& total, optim::StepRules const& rules, std::size_t parity);
  /// The sums of the last decide(), once the reduce stream has passed it.
  [[nodiscard]] optim::StepSums const& total_on_device() const noexcept { return step_->total; }
  /// Makes the stream of updates wait for decide().
  void await_decision();
  /// Computes what updates need of whole matrices and parameters. Call after await_decision(), and before the first
  /// update. Collective.
  /// `frozen`: see Gradients::frozen().
  void begin_updates(bool frozen);
  /// Call after begin_updates(), and once no rank reads what this one is about to write: Parameters::await_gathers().
  void update(FlatId flat);
  /// Bytes passed to collectives for the directions of matrices, or for first moments, so far, over all ranks.
  [[nodiscard]] MovedBytes moved() const noexcept {
    return matrices_ ? matrices_->moved() : momenta_ ? momenta_->moved() : MovedBytes{};
  }
  /// Sums `mine` of evaluation passes over ranks. Waits.
  [[nodiscard]] optim::StepSums sum_evaluation(optim::StepSums const& mine);
  /// The sums that decide() will compute, ahead of it. Waits.
  [[nodiscard]] optim::StepSums sum_step(optim::StepSums const& mine, std::span<optim::LossTerm const> losses);
  /// Ranks sum this many metrics from now on. Must be the same on all ranks.
  void set_metrics(std::size_t count) noexcept { metric_count_ = count; }
  /// Results of the last two decide()s, by parity. Waits until they can be read.
  [[nodiscard]] StepResults const& results();
  /// The parity of the last decide(). Negative if there was none: StepResults::initial then has the current scalars.
  [[nodiscard]] int last_decision() const noexcept { return last_decision_; }
  /// Call after factors of learning rates in the model's description have changed. Waits for updates under way.
  void follow_factors();
  /// Sets the state as if the last step had left it. Waits.
  void restore(std::int64_t applied, optim::LossScaleState const& loss_scale);
  /// `action` is called by update() on the host for every flat unit, before any work is enqueued: it must block until a
  /// save has read the unit's states. Empty: none.
  void set_before_update(std::function<void(FlatId)> action) { before_update_ = std::move(action); }
  /// The scale of the next loss. If it is dynamic, waits for the decide() that set it: the last one, or with delayed
  /// updates the one before.
  [[nodiscard]] float loss_scale();
  /// The same scale in the device's memory, for work of the compute stream before the next decide().
  [[nodiscard]] float const* loss_scale_on_device() const noexcept { return &step_->scalars.loss_scale.scale; }
  /// Call when no update is pending any more: the next loss has the scale that the last decide() set.
  void settle() noexcept { scale_decided_ = last_decided_; }

 private:
  /// One call of the kernel: `count` elements, which begin `before` elements after the start of a stretch.
  struct Piece {
    std::int64_t before, count;
    std::vector<optim::Segment> segments;
  };
  /// Elements, counted from the optimizer's first one, whose states come from their home together. Parameters may come
  /// in smaller pieces.
  struct Stretch {
    Range elements;
    StateHome* states;
    std::vector<Piece> pieces;
  };
  void begin_states();
  void expect_runs(optim::Rule const& rule) const;
  void cut_stretches();
  void conclude(optim::StepRules const& rules, std::size_t parity);
  void note_decision(optim::StepRules const& rules, std::size_t parity) noexcept;
  void quantise(FlatId flat);
  void sum_over_stages(std::string_view purpose, optim::StepSums& mine, optim::StepSums& total);
  [[nodiscard]] optim::StepSums sum(std::string_view purpose, comm::Communicator& over,
                                    std::span<float const> block_sums, optim::StepSums const& mine,
                                    std::span<optim::LossTerm const> losses);

  Memory* memory_;
  device::Stream* stream_;
  comm::Communicator* comm_;
  StepMemory* step_;  // on the device
  std::unique_ptr<device::Memory> host_;
  StepResults* results_;
  StateHome in_memory_;
  ById<FlatId, std::vector<Stretch>> stretches_;
  std::optional<MatrixDirections> matrices_;  // if they have a rule of their own
  std::optional<ParameterNorms> norms_;       // if the rule needs them
  std::optional<EncodedMomenta> momenta_;     // if the rule encodes them
  optim::Update before_freeze_;               // the update in steps before the freeze
  bool frozen_ = false;
  std::size_t metric_count_ = 0;
  std::unique_ptr<device::Event> decided_;
  std::function<void(FlatId)> before_update_;
  int last_decision_ = -1;
  // parities, with a dynamic loss scale: of the last decide(), and of the one that set the scale of the next loss
  std::int64_t last_decided_ = -1, scale_decided_ = -1;
};

}  // namespace zeroth::shard
