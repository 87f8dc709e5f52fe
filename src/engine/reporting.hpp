// SPDX-License-Identifier: Apache-2.0
/// Printing and writing about steps as the stage file asks: on rank 0, to the log and to monitors.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/span_sums.hpp"
#include "shard/call_log.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/device/memory.hpp"
#include "zeroth/device/timeline.hpp"
#include "zeroth/engine/rank_spread.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/monitor/monitor.hpp"

namespace zeroth::engine {

/// "FILE: 5 keys without effect here: a, b, ..." and a line for each unknown key. Empty if the file has no such keys.
[[nodiscard]] std::vector<std::string> notes_of(Config const& config);

/// "parameters 1.20 MB, ..., total 3.10 MB"
[[nodiscard]] std::string in_words(MemoryBytes const& bytes);

/// Steps from one line of the log to the next; 0: no lines.
[[nodiscard]] std::int64_t lines_every(ReportSettings const& asked) noexcept;

/// The objects that a reporter works with. All must outlive it.
struct ReporterContext {
  Settings const* settings = nullptr;
  model::Description const* model = nullptr;
  device::Device* device = nullptr;
  shard::CallLog const* calls = nullptr;        ///< Null without comms_logger.
  std::function<void(std::string const&)> log;  ///< Logs a line.
};

/// Lives as long as the engine, on rank 0. Used by the thread that steps.
class Reporter {
 public:
  /// Opens the outputs that the file names, and logs those that cannot be opened. Starts tracing the device if the file
  /// asks for times.
  explicit Reporter(ReporterContext context);
  void add(std::unique_ptr<Monitor> monitor);  ///< Adds a monitor of the program's.
  /// Call when step `step` has been enqueued: the spans of all work enqueued so far belong to it, whenever they end.
  void close(std::int64_t step);
  /// Takes the report of a closed step. `metrics` are events of the program's own numbers. `own_times`: of ranks, if
  /// a line is due that has them.
  void see(StepReport const& report, std::int64_t samples, std::vector<MonitorEvent> metrics,
           std::optional<RankSpread> const& own_times = {});
  /// Traces the device into the program's `timeline`; null stops that.
  void trace(Timeline* timeline);
  /// The table of all collectives so far. Empty without comms_logger.
  [[nodiscard]] std::string communication();
  /// Call when all work is done, before the device is destroyed.
  void end() noexcept;

 private:
  bool open(std::string_view key, std::function<std::unique_ptr<Monitor>()> const& make);
  [[nodiscard]] ReportSettings const& settings() const noexcept { return context_.settings->reports; }
  void write(std::vector<MonitorEvent> const& events);
  void print(StepReport const& report, std::optional<RankSpread> const& own_times);
  void profile(StepReport const& report);
  void take_spans();
  [[nodiscard]] std::int64_t profiled_step() const noexcept;

  ReporterContext context_;
  std::int64_t interval_;  // steps between lines; 0: no lines
  bool scales_loss_;
  std::vector<std::unique_ptr<Monitor>> monitors_;
  std::int64_t skipped_ = 0;
  StepReport sums_;  // sums of times since the last line
  std::int64_t sum_of_steps_ = 0;
  std::unique_ptr<Timeline> timeline_;  // of the current step; null if no times are asked for
  struct Closed {
    std::int64_t step = 0;
    std::unique_ptr<Timeline> timeline;
  };
  std::vector<Closed> closed_;  // closed steps whose spans are not added up yet
  bool traced_by_program_ = false;
  SpanSums since_line_, since_start_, of_step_;  // of the three tables
  std::int64_t last_step_ = 0;                   // last closed step
};

}  // namespace zeroth::engine
