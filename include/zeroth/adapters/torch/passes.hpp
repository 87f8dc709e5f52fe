// SPDX-License-Identifier: Apache-2.0
/// Micro-steps and evaluation passes of a libtorch module.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "zeroth/adapters/torch/frozen.hpp"
#include "zeroth/adapters/torch/runtime.hpp"
#include "zeroth/engine/pass.hpp"

namespace zeroth::torch_adapter {

class Trainer;

namespace detail {
inline void check_loss(at::Tensor const& loss, bool needs_gradient) {
  ZEROTH_EXPECTS(loss.defined() && loss.numel() == 1,
                 "the loss " +
                     (loss.defined() ? c10::str("has shape ", loss.sizes()) : std::string{"is an undefined tensor"}) +
                     "; it must be one number, the mean over this rank's batch");
  ZEROTH_EXPECTS(
      loss.scalar_type() == at::kFloat || loss.scalar_type() == at::kDouble,
      std::string{"the loss is of type "} + c10::toString(loss.scalar_type()) +
          ": take the mean in Float, of `output.to(torch::kFloat)`; its gradient carries a loss scale that 16 "
          "bits may not hold");
  ZEROTH_EXPECTS(!needs_gradient || loss.requires_grad(),
                 "the loss does not depend on a parameter that is trained, or was computed without autograd");
}
}  // namespace detail

/// Forward and backward of one micro-batch. Call the module as usual, on the thread that the micro-step began on. A
/// unit opens when libtorch first reads one of its parameters, and closes when libtorch reads those of another unit.
class [[nodiscard]] MicroStep {
 public:
  /// Used by MicroSteps to make the next one. `source` makes the engine's passes.
  MicroStep(detail::Runtime& runtime, AnyMicroStep::Source& source) : runtime_{&runtime} {
    step_.emplace(source);
    runtime.prepare(*step_);
    runtime.begin(*step_, &*step_);
  }
  MicroStep(MicroStep const&) = delete;
  MicroStep& operator=(MicroStep const&) = delete;
  ~MicroStep() {
    runtime_->end();
    step_.reset();  // guards of the failed pass are still open: the engine detects that, and sends nothing of them
    runtime_->drop();
    frozen_.clear();
  }
  /// See AnyPass::first_sample().
  [[nodiscard]] std::int64_t first_sample() const noexcept { return step_->first_sample(); }
  /// Call it once, in place of loss.backward(). Reports `loss`, the mean over this rank's batch in Float, and runs
  /// autograd from it; the engine gets the gradients. Waits for the loss. Throws ContractError for a loss that is not
  /// one Float value with a gradient, and Error, without libtorch's backtrace, if autograd fails.
  void backward(at::Tensor const& loss, LossOptions const& options = {}) {
    detail::check_loss(loss, true);
    runtime_->end_forward();
    runtime_->backward(loss, step_->report_loss(loss.item<float>(), options));
  }
  /// Makes the module of another Trainer usable in forward and backward, frozen, until this micro-step ends: a GAN's
  /// discriminator in the generator's micro-step, or the reverse. Its units are gathered when libtorch reads them;
  /// gradients flow through it to its inputs, and none reach its parameters. Call it before the other module, on all
  /// ranks, each of which must then use the same units of the other module in the same order. A rank without data calls
  /// backward() with weight 0, since skip() is not possible. Meanwhile calls on the other Trainer throw ContractError.
  ///
  /// Collective; waits at the end of the micro-step. Costs a gather of each unit in forward and, unless it is still
  /// there, one in backward, where nothing is prefetched. Throws ContractError for this micro-step's own Trainer and
  /// for one that is used already, and if the other module was changed as micro_steps() of its Trainer would reject.
  void use_frozen(Trainer& other);
  /// Declares that this rank has no data this time: see AnyMicroStep::skip(). Do not call the module or backward().
  void skip() {
    ZEROTH_EXPECTS(frozen_.empty(),
                   "skip() of a micro-step that called use_frozen(), in which all ranks use the other module alike: "
                   "call backward(loss, {.weight = 0}) with any samples");
    step_->skip();
  }
  /// Declares that this rank does not use the unit of this name this time, though other ranks may. Call it before any
  /// later unit is used. A unit that no rank uses need not be skipped. Throws ContractError if no unit has this name.
  void skip(std::string const& unit) { runtime_->skip(unit); }
  /// See AnyPass::report_metric().
  void report_metric(Metric metric, double sum, double weight = 1) { step_->report_metric(metric, sum, weight); }

 private:
  detail::Runtime* runtime_;
  std::optional<AnyMicroStep> step_;
  detail::FrozenUses frozen_;
};

/// Forward only, without autograd. Call the module as usual. Calling train() and eval() is up to the program.
class [[nodiscard]] EvaluationPass {
 public:
  /// Used by Evaluation to make the next one.
  EvaluationPass(detail::Runtime& runtime, AnyEvaluationPass::Source& source) : runtime_{&runtime} {
    pass_.emplace(source);
    runtime.begin(*pass_, nullptr);
  }
  EvaluationPass(EvaluationPass const&) = delete;
  EvaluationPass& operator=(EvaluationPass const&) = delete;
  ~EvaluationPass() {
    runtime_->end();
    pass_.reset();
    runtime_->drop();
    frozen_.clear();
  }
  /// See AnyPass::first_sample().
  [[nodiscard]] std::int64_t first_sample() const noexcept { return pass_->first_sample(); }
  /// Makes the module of another Trainer usable until this pass ends: see MicroStep::use_frozen(). Copies rank 0's
  /// buffers of that module to all ranks first.
  void use_frozen(Trainer& other);
  /// Reports the mean loss over this rank's batch, once. Waits for it. Throws ContractError for a loss that is not one
  /// number in Float or Double.
  void report_loss(at::Tensor const& loss, LossOptions const& options = {}) {
    detail::check_loss(loss, false);
    pass_->report_loss(loss.item<float>(), options);
  }
  /// See AnyPass::report_metric().
  void report_metric(Metric metric, double sum, double weight = 1) { pass_->report_metric(metric, sum, weight); }

 private:
  at::NoGradGuard no_grad_;
  detail::Runtime* runtime_;
  std::optional<AnyEvaluationPass> pass_;
  detail::FrozenUses frozen_;
};

namespace detail {
/// A range for range-for. Each iteration makes one pass and ends it.
template <class Pass, class EnginePass>
struct [[nodiscard]] PassRange {
  struct Iterator {
    Runtime* runtime;
    typename Passes<EnginePass>::Iterator at;
    [[nodiscard]] Pass operator*() const { return Pass{*runtime, *at.source}; }
    Iterator& operator++() noexcept {
      ++at;
      return *this;
    }
    friend bool operator==(Iterator const& iterator, std::default_sentinel_t end) noexcept {
      return iterator.at == end;
    }
  };
  [[nodiscard]] Iterator begin() const noexcept { return {runtime, passes.begin()}; }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
  Runtime* runtime;
  Passes<EnginePass> passes;
};
}  // namespace detail

/// The micro-steps of a step, for range-for.
using MicroSteps = detail::PassRange<MicroStep, AnyMicroStep>;

/// A range of evaluation passes, and their loss: see AnyEvaluation.
class [[nodiscard]] Evaluation {
 public:
  /// Used by Trainer::evaluation().
  Evaluation(detail::Runtime& runtime, AnyEvaluation const& evaluation) noexcept
      : runtime_{&runtime}, evaluation_{evaluation} {}
  /// The begin of all passes. Starts none yet.
  [[nodiscard]] auto begin() const noexcept {
    return detail::PassRange<EvaluationPass, AnyEvaluationPass>::Iterator{runtime_, evaluation_.begin()};
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }    ///< After the last pass.
  [[nodiscard]] float mean_loss() const { return evaluation_.mean_loss(); }    ///< See AnyEvaluation::mean_loss().
  [[nodiscard]] MetricMeans metrics() const { return evaluation_.metrics(); }  ///< See AnyEvaluation::metrics().

 private:
  detail::Runtime* runtime_;
  AnyEvaluation evaluation_;
};

}  // namespace zeroth::torch_adapter
