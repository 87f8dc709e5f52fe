// SPDX-License-Identifier: Apache-2.0
/// Trains a model as a stage file says. A Model describes what is trained, a Config how, and an Engine trains it.
/// AnyEngine documents an engine's functions, and the rules for every call.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "zeroth/engine/any_engine.hpp"
#include "zeroth/engine/plan.hpp"

namespace zeroth {

/// An AnyEngine with static types: T is what the math reads, G is what it writes. The constructor throws ConfigError,
/// naming both, if the file has other types. Without template arguments the engine is fp32: `Engine engine{...}`.
template <Element T, GradientOf<T> G = T>
class Engine final : public AnyEngine {
 public:
  /// Like AnyEngine's constructor, for a program compiled for these types. Waits.
  Engine(Job& job, Model const& model, Config const& config)
      : AnyEngine{job, model, config, dtype_of<T>, dtype_of<G>} {}
  /// Like AnyEngine's constructor on a mesh, for a program compiled for these types. Waits.
  Engine(Mesh& mesh, Model const& model, Config const& config)
      : AnyEngine{mesh, model, config, dtype_of<T>, dtype_of<G>} {}
  /// This rank's actions in a step, in order, instead of micro_steps(): forward and backward of every micro-step
  /// through the units of its stage, by zeroth.pipeline.schedule. An action waits for its inputs. Call step()
  /// afterwards.
  Passes<Work<T, G>> schedule() { return this->template actions<Work<T, G>>(); }
  /// Like AnyEngine::micro_steps(), with types.
  Passes<MicroStep<T, G>> micro_steps() { return this->template passes<MicroStep<T, G>>(); }
  /// Like AnyEngine::evaluation(), with types.
  Evaluation<T> evaluation(int passes) { return Evaluation<T>{this->begin_evaluation(passes)}; }
};
/// Without template arguments: fp32.
Engine(Job&, Model const&, Config const&)->Engine<float>;
/// Without template arguments: fp32, on a mesh.
Engine(Mesh&, Model const&, Config const&)->Engine<float>;

/// A pair of types as a value, which with_precision() passes to a template that makes an Engine<T, G>.
template <Element T, GradientOf<T> G = T>
struct Precision {
  using Compute = T;   ///< Type of parameters in guards.
  using Gradient = G;  ///< Type of gradients in guards.
};
namespace detail {
struct DtypePair {
  Dtype compute, gradient;
};
[[noreturn]] ZEROTH_EXPORT void refuse_precision(Config const& config, std::span<DtypePair const> allowed);
}  // namespace detail
/// Calls `f(P{})` with the Precision of `Ps` that the file selects, for programs whose math is a template: `f` is
/// compiled once for each. Throws ConfigError, listing all of them, if the file selects none. Not collective.
template <class... Ps, class F>
  requires(sizeof...(Ps) > 0)
void with_precision(Config const& config, F const& f) {
  std::array<detail::DtypePair, sizeof...(Ps)> const allowed{
      {{dtype_of<typename Ps::Compute>, dtype_of<typename Ps::Gradient>}...}};
  std::size_t at = 0;
  bool done = false;
  auto const offer = [&](auto precision) {
    auto const& [compute, gradient] = allowed[at++];
    if (!done && compute == config.compute_dtype() && gradient == config.gradient_dtype()) {
      done = true;
      f(precision);
    }
  };
  (offer(Ps{}), ...);
  if (!done) {
    detail::refuse_precision(config, allowed);
  }
}
/// The same for all types that a file can select: `f` is compiled five times.
template <class F>
void with_precision(Config const& config, F const& f) {
  with_precision<Precision<float>, Precision<bf16, float>, Precision<bf16>, Precision<fp16, float>, Precision<fp16>>(
      config, f);
}

}  // namespace zeroth
