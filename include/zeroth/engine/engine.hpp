// SPDX-License-Identifier: Apache-2.0
/// Trains a model as a stage file says. A Model says what, a Config says how, an Engine does it. What an engine can do,
/// and the rules for every call, are said once, at AnyEngine.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "zeroth/engine/any_engine.hpp"
#include "zeroth/engine/plan.hpp"

namespace zeroth {

/// An AnyEngine of known types: the program states what its math reads (T) and writes (G). The constructor throws
/// ConfigError, naming both, if the file says otherwise. Without types it is one of fp32: `Engine engine{...}`.
template <Element T, GradientOf<T> G = T>
class Engine final : public AnyEngine {
 public:
  /// As AnyEngine's, for a program that was compiled for these types. Waits.
  Engine(Job& job, Model const& model, Config const& config)
      : AnyEngine{job, model, config, dtype_of<T>, dtype_of<G>} {}
  /// As AnyEngine's on a mesh, for a program that was compiled for these types. Waits.
  Engine(Mesh& mesh, Model const& model, Config const& config)
      : AnyEngine{mesh, model, config, dtype_of<T>, dtype_of<G>} {}
  /// What this rank does in a step, in order, instead of micro_steps(): forward and backward of every micro-step
  /// through the units of its stage, as zeroth.pipeline.schedule says. Then comes step(). An action waits for what it
  /// reads.
  Passes<Work<T, G>> schedule() { return this->template actions<Work<T, G>>(); }
  /// As AnyEngine::micro_steps, with types.
  Passes<MicroStep<T, G>> micro_steps() { return this->template passes<MicroStep<T, G>>(); }
  /// As AnyEngine::evaluation, with types.
  Evaluation<T> evaluation(int passes) { return Evaluation<T>{this->begin_evaluation(passes)}; }
};
/// Without types, fp32.
Engine(Job&, Model const&, Config const&)->Engine<float>;
/// Without types, fp32, on a mesh.
Engine(Mesh&, Model const&, Config const&)->Engine<float>;

/// A pair of types as a value, which with_precision() hands to a template that makes an Engine<T, G>.
template <Element T, GradientOf<T> G = T>
struct Precision {
  using Compute = T;   ///< Of parameters in guards.
  using Gradient = G;  ///< Of gradients in guards.
};
namespace detail {
struct DtypePair {
  Dtype compute, gradient;
};
[[noreturn]] ZEROTH_EXPORT void refuse_precision(Config const& config, std::span<DtypePair const> allowed);
}  // namespace detail
/// Calls `f(P{})` with that one of `Ps`, which are Precisions, that the file asks for, for programs whose math is a
/// template: `f` is compiled once for each. Throws ConfigError, which names all of them, if it asks for none. Not
/// collective.
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
/// The same for all types that a file can ask for: `f` is compiled five times.
template <class F>
void with_precision(Config const& config, F const& f) {
  with_precision<Precision<float>, Precision<bf16, float>, Precision<bf16>, Precision<fp16, float>, Precision<fp16>>(
      config, f);
}

}  // namespace zeroth
