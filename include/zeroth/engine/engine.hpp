/// Trains a model as a stage file says. A Model says what, a Config says how, an Engine does it.
///
/// Rules for every call, said once:
/// - **Collective:** all calls on an Engine and its passes are made by every rank in the same order, except where
///   noted.
/// - **Stream order:** work on parameters and gradients is ordered on the compute stream, which the caller owns. No
///   call blocks the host unless it says "waits". On the CPU the compute stream is the calling thread.
/// - **Threads:** an object belongs to the thread that made it; a Config may be shared. With `zeroth.check` an Engine
///   throws ContractError on any other thread.
/// - **Errors:** a destructor never throws; what it found is thrown by the next call on the same engine.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/device/memory.hpp"
#include "zeroth/device/timeline.hpp"
#include "zeroth/engine/pass.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth {

struct PlanOptions {
  comm::Transport transport = comm::Transport::local;
};
/// What each rank's engine will hold. Arithmetic: needs no job, and equals what is measured later. Not collective.
[[nodiscard]] MemoryBytes plan(Model const& model, Config const& config, int world, PlanOptions const& options = {});
/// The same for people: a table by category, and a line for everything that the plan decided (slots, caps, dtypes).
[[nodiscard]] std::string explain_plan(Model const& model, Config const& config, int world,
                                       PlanOptions const& options = {});

struct StepOptions {
  std::optional<float> learning_rate;  ///< For this step, instead of the file's schedule. The same on all ranks.
};

namespace detail {
struct EngineDeleter {
  void operator()(EngineState* state) const noexcept;
};
using EnginePointer = std::unique_ptr<EngineState, EngineDeleter>;
[[nodiscard]] EnginePointer make_engine(Job& job, Model const& model, Config const& config, Dtype compute,
                                        Dtype gradient);
[[nodiscard]] int accumulation_steps(EngineState const& engine) noexcept;
[[nodiscard]] std::optional<StepReport> step(EngineState& engine, StepOptions const& options);
[[nodiscard]] std::optional<StepReport> finish(EngineState& engine);
void trace(EngineState& engine, Timeline* timeline);
[[nodiscard]] EvaluationRecord begin_evaluation(EngineState& engine, int passes);
void save_weights(EngineState& engine, std::filesystem::path const& file);
void load_weights(EngineState& engine, std::filesystem::path const& file);
[[nodiscard]] std::int64_t micro_batch(EngineState const& engine) noexcept;
[[nodiscard]] MemoryBytes peak(EngineState const& engine) noexcept;
[[nodiscard]] MemoryBytes planned(EngineState const& engine) noexcept;
[[nodiscard]] device::StreamRef compute_stream(EngineState const& engine) noexcept;
}  // namespace detail

/// Trains `model` as `config` says. The program states what its math reads (T) and writes (G); the constructor throws
/// ConfigError, naming both, if the file says otherwise. All memory is allocated here, none in a steady-state step.
/// Its end waits for all that it has begun; after an error it tells the other ranks instead, which end too.
/// Neither moves nor copies, because its passes and guards know its address: a function may return one that it makes in
/// the return statement, a container holds a unique_ptr. If it ends before a pass does, it ends the process and says
/// so.
template <Element T, GradientOf<T> G = T>
class Engine {
 public:
  /// On the job's device. Waits until all ranks are here and have shown the same model, config and initial parameters.
  Engine(Job& job, Model const& model, Config const& config)
      : state_{detail::make_engine(job, model, config, dtype_of<T>, dtype_of<G>)} {}
  Engine(Engine const&) = delete;
  Engine& operator=(Engine const&) = delete;

  /// The file's gradient_accumulation_steps of them. Then comes step().
  Passes<MicroStep<T, G>> micro_steps() { return {state_.get(), detail::accumulation_steps(*state_)}; }
  /// Enqueues the update and returns the report of the *previous* step, so the first time none. Waits for that one:
  /// that never idles the device, stops the host from running further ahead, and puts each report at the same place of
  /// the loop on every rank. Throws Error when a dynamic loss scale cannot get smaller.
  std::optional<StepReport> step(StepOptions const& options = {}) { return detail::step(*state_, options); }
  /// Waits for all work; returns the report that step() still owes. After the loop.
  std::optional<StepReport> finish() { return detail::finish(*state_); }
  /// From now on the engine adds to `timeline` what each stream does and where it waits; null ends that. Between
  /// passes. The timeline lives until finish() or until the engine ends. Costs allocations while it lasts. Not
  /// collective.
  void trace(Timeline* timeline) { detail::trace(*state_, timeline); }
  /// Between micro-steps or steps; `passes` batches on every rank, at least one. No effect on training. Ends the
  /// evaluation before it, if that was left unfinished.
  Evaluation<T> evaluation(int passes) { return Evaluation<T>{detail::begin_evaluation(*state_, passes)}; }
  /// One safetensors file of the masters, in fp32, written by rank 0 from the shards piece by piece: there when it is
  /// complete, or not at all. Between passes. Waits. If it cannot be written, all ranks throw the same SystemError, and
  /// the engine goes on: another file may do.
  void save_weights(std::filesystem::path const& file) { detail::save_weights(*state_, file); }
  /// Each rank reads its ranges only. fp32, bf16 and fp16 files. Between passes. Waits. Leaves Adam's moments and the
  /// count of updates as they are. Warns of the first value that is not finite. If one rank cannot read the file, or
  /// names and shapes do not match, all throw the same SystemError or ContractError, nothing was changed, and the
  /// engine goes on. An error while values are read, from a file that was whole before, is the engine's end, and so is
  /// PeerError if ranks read different values.
  void load_weights(std::filesystem::path const& file) { detail::load_weights(*state_, file); }
  [[nodiscard]] std::int64_t micro_batch() const noexcept {  ///< Samples per rank and pass. Not collective.
    return detail::micro_batch(*state_);
  }
  [[nodiscard]] MemoryBytes peak() const noexcept { return detail::peak(*state_); }  ///< Measured. Not collective.
  /// What plan() says. Not collective.
  [[nodiscard]] MemoryBytes planned() const noexcept { return detail::planned(*state_); }
  /// The stream that the caller's kernels belong on: see adapters/cuda.hpp. Null on the CPU. Not collective.
  [[nodiscard]] device::StreamRef compute_stream() const noexcept { return detail::compute_stream(*state_); }

 private:
  detail::EnginePointer state_;
};

template <Element T, GradientOf<T> G>
struct Precision {
  using Compute = T;
  using Gradient = G;
};
/// Calls `f(Precision<T, G>{})` with the file's types, for programs whose math is a template. Not collective.
template <class F>
void with_precision(Config const& config, F const& f) {
  bool const wide = config.gradient_dtype() == Dtype::fp32;
  switch (config.compute_dtype()) {
    case Dtype::bf16: return wide ? f(Precision<bf16, float>{}) : f(Precision<bf16, bf16>{});
    case Dtype::fp16: return wide ? f(Precision<fp16, float>{}) : f(Precision<fp16, fp16>{});
    default: return f(Precision<float, float>{});
  }
}

}  // namespace zeroth
