// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/step_graph.hpp"

#include <fmt/format.h>

#include <utility>

#include "comm/finally.hpp"
#include "engine/call_guard.hpp"
#include "engine/engine_state.hpp"
#include "engine/step_end.hpp"
#include "engine/step_recording.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth {

using engine::CallGuard;

namespace {

/// The first two steps of an engine compare what ranks enqueue, and NCCL connects ranks in its first collectives.
constexpr std::int64_t steps_before = 2;

void expect_recordable(detail::EngineState const& engine, char const* call) {
  if (auto const why = engine::why_not_recorded(engine); !why.empty()) {
    throw ContractError{fmt::format("{}: {}", call, why)};
  }
}

}  // namespace

StepGraph AnyEngine::step_graph() {
  auto& engine = state_->of_worker("step_graph()");
  CallGuard const call_guard{engine.session.thread_check, "step_graph()"};
  engine.session.protocol->check_usable("step_graph()");
  expect_recordable(engine, "step_graph()");
  return StepGraph{engine};
}

StepGraph::StepGraph(detail::EngineState& engine) : engine_{&engine} {}
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
StepGraph::~StepGraph() = default;

bool StepGraph::recorded() const noexcept { return recording_ != nullptr; }

std::optional<StepReport> StepGraph::record(std::function<void()> const& step) {
  auto& engine = engine_->of_worker("record()");
  auto& session = engine.session;
  CallGuard const call_guard{session.thread_check, "record()"};
  session.protocol->check_between_steps("record()");
  auto const done = session.protocol->steps() - session.first_step;
  ZEROTH_EXPECTS(done >= steps_before,
                 fmt::format("record() after {} steps of this engine; allowed: {} or more, which connect the ranks",
                             done, steps_before));
  expect_recordable(engine, "record()");
  ZEROTH_EXPECTS(session.rate_factors.empty(),
                 "record() after set_learning_rate_factors(): the next step() takes over the factors; record the step "
                 "after that");
  return engine.or_end([&] {
    auto report = engine::take_report(engine);
    session.await_saved();
    recording_ = std::make_unique<engine::StepRecording>(engine);
    {
      comm::Finally const ended{[&session] { session.recording = nullptr; }};
      session.recording = recording_.get();
      try {
        recording_->begin();
        step();
        recording_->end();
      } catch (...) {
        recording_->abandon();
        recording_.reset();
        throw;
      }
    }
    return report;
  });
}

std::optional<StepReport> StepGraph::replay() {
  auto& engine = engine_->of_worker("replay()");
  CallGuard const call_guard{engine.session.thread_check, "replay()"};
  ZEROTH_EXPECTS(recorded(), "replay() of a StepGraph that has recorded nothing: call record() first");
  engine.session.protocol->check_between_steps("replay()");
  recording_->expect_unchanged();
  return engine.or_end([&] {
    auto report = engine::take_report(engine);
    recording_->launch();
    return report;
  });
}

}  // namespace zeroth
