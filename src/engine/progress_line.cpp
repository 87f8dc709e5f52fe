// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/progress_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/unhurried_output.hpp"
#include "engine/progress_text.hpp"
#include "zeroth/core/clock.hpp"
#include "zeroth/tool/core/terminal.hpp"

namespace zeroth {
namespace {

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>{end - begin}.count();
}

}  // namespace

struct ProgressLine::State {
  ProgressOptions options;
  Clock::time_point begin = Clock::now();
  std::optional<std::pair<std::int64_t, Clock::time_point>> first;  // the first step shown, and its time
  UnhurriedOutput output;

  explicit State(ProgressOptions const& given) : options{given} {}

  /// The mean over all steps since the first report, so that it includes saves and evaluations; for the first report
  /// its own step time.
  [[nodiscard]] double step_seconds(StepReport const& report, Clock::time_point now) const {
    auto const steps = report.step - first->first;
    return steps > 0 ? seconds_between(first->second, now) / static_cast<double>(steps) : 1e-3 * report.step_ms;
  }
};

ProgressLine::ProgressLine(ProgressOptions const& options) : state_{std::make_unique<State>(options)} {}

ProgressLine::~ProgressLine() = default;

void ProgressLine::show(StepReport const& report, std::int64_t bytes) {
  auto const now = Clock::now();
  if (!state_->first) {
    state_->first = {report.step, now};
  }
  engine::ProgressState const state{
      .bytes = bytes, .elapsed_s = seconds_between(state_->begin, now), .step_s = state_->step_seconds(report, now)};
  auto const terminal = terminal_at(STDOUT_FILENO);
  if (!terminal.is_there) {
    state_->output.write(engine::progress_text(state_->options, report, state, 0) + "\n");
    return;
  }
  constexpr int usual_columns = 80;  // for a terminal that does not report its width
  int const columns = terminal.columns > 0 ? terminal.columns : usual_columns;
  // One column less: some terminals start a new line after the last column.
  state_->output.write_over(engine::progress_text(state_->options, report, state, std::max(columns - 1, 1)));
}

void ProgressLine::say(std::string lines) { state_->output.write(std::move(lines)); }

}  // namespace zeroth
