/// Once through the model: micro-steps and evaluation passes, as ranges that nobody can miscount.
#pragma once
#include <cstdint>
#include <iterator>
#include <optional>

#include "zeroth/engine/guards.hpp"

namespace zeroth {

struct LossOptions {
  float weight = 1;  ///< Against a full batch: 0.5 if half of the targets are padding.
};

/// A mean loss that the device computes: `mean` is where, written in stream order before the micro-step's gradients and
/// left alone until the next step has opened its first unit.
struct DeviceLoss {
  float const* mean;
};

namespace detail {
/// What an Evaluation knows of itself.
struct EvaluationRecord {
  EngineState* engine;
  std::uint64_t id;  ///< Distinguishes it from all others of the engine.
  int passes;
  int done = 0;
  double loss = 0, weight = 0;  ///< This rank's sums so far.
  std::optional<float> mean{};  ///< Of all ranks, once all passes are done.
};
void begin_pass(EngineState& engine, EvaluationRecord* evaluation);  ///< Null: a micro-step.
void end_pass(EngineState& engine, int exceptions_when_opened) noexcept;
[[nodiscard]] GuardHandle open_forward(EngineState& engine, Unit unit);
[[nodiscard]] GuardHandle open_backward(EngineState& engine, Unit unit);
[[nodiscard]] float report_loss(EngineState& engine, float mean, LossOptions const& options);
[[nodiscard]] float report_loss(EngineState& engine, DeviceLoss mean, LossOptions const& options);
void skip_unit(EngineState& engine, Unit unit);
void skip_pass(EngineState& engine);
[[nodiscard]] std::int64_t first_sample(EngineState const& engine) noexcept;
[[nodiscard]] float evaluation_loss(EvaluationRecord const& evaluation);
}  // namespace detail

/// Once through the model. What forward code takes that training and evaluation share.
template <Element T>
class Pass {
 public:
  Pass(Pass const&) = delete;
  Pass& operator=(Pass const&) = delete;
  /// Makes `unit` readable and prefetches those after it; another order than the model's works, and counts as misses.
  /// Throws ContractError while another guard of this engine is open. Waits on the CPU until the unit is there.
  [[nodiscard]] Forward<T> forward(Unit unit) { return Forward<T>{detail::open_forward(*engine_, unit)}; }
  /// Where this rank's batch starts in the sample stream that all ranks share. Order: step, micro-step, rank; every
  /// evaluation has a stream of its own. Not collective.
  [[nodiscard]] std::int64_t first_sample() const noexcept { return detail::first_sample(*engine_); }

 protected:
  Pass(detail::EngineState& engine, detail::EvaluationRecord* evaluation)
      : engine_{&engine}, exceptions_{detail::exceptions_in_flight()} {
    detail::begin_pass(engine, evaluation);
  }
  ~Pass() { detail::end_pass(*engine_, exceptions_); }
  detail::EngineState* engine_;

 private:
  int exceptions_;
};

/// Forward and backward on one micro-batch.
template <Element T, GradientOf<T> G>
class [[nodiscard]] MicroStep final : public Pass<T> {
 public:
  using Source = detail::EngineState;
  explicit MicroStep(Source& engine) : Pass<T>{engine, nullptr} {}
  /// Makes `unit` readable, and its gradients writable. Every unit has as many backward turns as uses_per_micro_step
  /// says, frozen ones too, in reverse order of the model's: in another order gradients are kept for longer, and
  /// ContractError is thrown when that takes more than zeroth.gradient_slots. Otherwise as forward().
  [[nodiscard]] Backward<T, G> backward(Unit unit) {
    return Backward<T, G>{detail::open_backward(*this->engine_, unit)};
  }
  /// Takes the mean loss of this micro-batch, once, and returns the seed: what to multiply that mean's gradient by
  /// (loss scale and weight). The engine divides by ranks and micro-steps; the caller never does. With a dynamic loss
  /// scale the first one of a step waits for the step before, which decides on the scale.
  [[nodiscard]] float report_loss(float mean, LossOptions const& options = {}) {
    return detail::report_loss(*this->engine_, mean, options);
  }
  /// The same for a mean that the device computes: no host waits for that.
  [[nodiscard]] float report_loss(DeviceLoss mean, LossOptions const& options = {}) {
    return detail::report_loss(*this->engine_, mean, options);
  }
  void skip() { detail::skip_pass(*this->engine_); }  ///< No data here this time: joins every collective, weighs 0.
  /// Unused here this time, though perhaps not on other ranks: an expert, an image tower. Before the next unit's turn.
  void skip(Unit unit) { detail::skip_unit(*this->engine_, unit); }
};

/// Forward only. `backward` does not exist here, so it does not compile.
template <Element T>
class [[nodiscard]] EvaluationPass final : public Pass<T> {
 public:
  using Source = detail::EvaluationRecord;
  explicit EvaluationPass(Source& evaluation) : Pass<T>{*evaluation.engine, &evaluation} {}
  void report_loss(float mean, LossOptions const& options = {}) {
    static_cast<void>(detail::report_loss(*this->engine_, mean, options));
  }
};

/// For range-for: each iteration makes one pass and ends it. The count is the same on all ranks.
template <class P>
struct [[nodiscard]] Passes {
  struct Iterator {
    typename P::Source* source;
    int left;
    [[nodiscard]] P operator*() const { return P{*source}; }
    Iterator& operator++() noexcept {
      --left;
      return *this;
    }
    friend bool operator==(Iterator const& at, std::default_sentinel_t) noexcept { return at.left == 0; }
  };
  [[nodiscard]] Iterator begin() const noexcept { return {source, count}; }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
  typename P::Source* source;
  int count;
};

/// A range of evaluation passes, and their loss. All ranks may leave it by `break` after the same pass, or before that
/// pass has done anything; it then has no loss, and the next evaluation() ends it. Outlives its passes.
template <Element T>
class [[nodiscard]] Evaluation {
 public:
  explicit Evaluation(detail::EvaluationRecord const& record) noexcept : record_{record} {}
  [[nodiscard]] auto begin() const noexcept { return Passes<EvaluationPass<T>>{&record_, record_.passes}.begin(); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
  /// Weighted, over all passes and ranks; NaN if nothing had any weight. The end of the last pass waited for it. Stays
  /// what it is whatever the engine does later. Throws ContractError before all passes are done. Not collective.
  [[nodiscard]] float mean_loss() const { return detail::evaluation_loss(record_); }

 private:
  mutable detail::EvaluationRecord record_;  // its passes write to it
};

}  // namespace zeroth
