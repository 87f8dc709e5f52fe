/// What the templates of the public API call: one line each.
#include "zeroth/engine/engine.hpp"

#include <exception>

#include "engine/engine_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::detail {

int exceptions_in_flight() noexcept { return std::uncaught_exceptions(); }

// guards.hpp
namespace {
EngineState& engine_of(GuardHandle handle) {
  ZEROTH_EXPECTS(handle.engine != nullptr, "a guard is used that was moved from");
  return *handle.engine;
}
}  // namespace
void const* parameter_address(GuardHandle handle, std::uint32_t model, std::uint32_t param) {
  return engine_of(handle).parameter_address(handle.guard, model, param);
}
Contribution contribute(GuardHandle handle, std::uint32_t model, std::uint32_t param) {
  return engine_of(handle).contribute(handle.guard, model, param);
}
void close(GuardHandle handle, int exceptions_when_opened) noexcept {
  handle.engine->close(handle.guard, std::uncaught_exceptions() > exceptions_when_opened);
}
void fill_zero(EngineState* engine, void* data, std::int64_t bytes) { engine->fill_zero(data, bytes); }

// pass.hpp
void begin_pass(EngineState& engine, EvaluationRecord* evaluation) { engine.begin_pass(evaluation); }
void end_pass(EngineState& engine, int exceptions_when_opened) noexcept {
  engine.end_pass(std::uncaught_exceptions() > exceptions_when_opened);
}
GuardHandle open_forward(EngineState& engine, Unit unit) { return {&engine, engine.open(stage::Phase::forward, unit)}; }
GuardHandle open_backward(EngineState& engine, Unit unit) {
  return {&engine, engine.open(stage::Phase::backward, unit)};
}
float report_loss(EngineState& engine, float mean, LossOptions const& options) {
  return engine.report_loss(mean, options);
}
void skip_unit(EngineState& engine, Unit unit) { engine.skip_unit(unit); }
void skip_pass(EngineState& engine) { engine.skip_pass(); }
std::int64_t first_sample(EngineState const& engine) noexcept { return engine.first_sample(); }
float report_loss(EngineState& engine, DeviceLoss mean, LossOptions const& options) {
  return engine.report_loss(mean, options);
}
float evaluation_loss(EvaluationRecord const& evaluation) {
  return evaluation.mean ? *evaluation.mean : evaluation.engine->evaluation_loss(evaluation);
}

// engine.hpp
void EngineDeleter::operator()(EngineState* state) const noexcept { delete state; }
EnginePointer make_engine(Job& job, Model const& model, Config const& config, Dtype compute, Dtype gradient) {
  return EnginePointer{new EngineState{job, model, config, compute, gradient}};
}
int accumulation_steps(EngineState const& engine) noexcept {
  return static_cast<int>(engine.settings().batch.accumulation);
}
std::optional<StepReport> step(EngineState& engine, StepOptions const& options) { return engine.step(options); }
std::optional<StepReport> finish(EngineState& engine) { return engine.finish(); }
void trace(EngineState& engine, Timeline* timeline) { engine.trace(timeline); }
EvaluationRecord begin_evaluation(EngineState& engine, int passes) { return engine.begin_evaluation(passes); }
void save_weights(EngineState& engine, std::filesystem::path const& file) { engine.save_weights(file); }
void load_weights(EngineState& engine, std::filesystem::path const& file) { engine.load_weights(file); }
std::int64_t micro_batch(EngineState const& engine) noexcept { return engine.settings().batch.micro; }
MemoryBytes peak(EngineState const& engine) noexcept { return engine.peak(); }
MemoryBytes planned(EngineState const& engine) noexcept { return engine.planned(); }
device::StreamRef compute_stream(EngineState const& engine) noexcept { return engine.compute_stream(); }

}  // namespace zeroth::detail
