// SPDX-License-Identifier: Apache-2.0
#include "engine/reporting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <utility>

#include "engine/communication.hpp"
#include "engine/flops_profile.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/problem.hpp"
#include "zeroth/tool/core/whole_file.hpp"

namespace zeroth::engine {
namespace {

constexpr std::int64_t usual_interval = 10;  // lines between tables if the file has no steps_per_print
constexpr std::int64_t most_kept = 10;       // number of steps whose spans are kept before they are added up

std::string megabytes(std::int64_t bytes) { return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6); }

/// The error without the rank's prefix, which log lines have anyway.
std::string bare(std::exception const& error) {
  std::string const text = error.what(), prefix = rank_prefix();
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

/// The message on how to upload the event files to Weights & Biases, which the library does not connect to.
std::string upload_of(ReportSettings const& asked) {
  auto const folder = std::filesystem::path{asked.tensorboard.output_path} / asked.tensorboard.job_name;
  auto const& [enabled, project, team] = asked.wandb;
  return fmt::format("wandb.enabled: the run is uploaded by: wandb sync --sync-tensorboard --project '{}'{} '{}'",
                     project, team.empty() ? std::string{} : fmt::format(" --entity '{}'", team), folder.string());
}

}  // namespace

std::vector<std::string> notes_of(Config const& config) {
  std::vector<std::string> lines, without_effect;
  for (auto const& note : config.notes()) {
    if (note.kind == config::NoteKind::no_effect) {
      without_effect.push_back(note.path);
    }
  }
  if (!without_effect.empty()) {
    lines.push_back(fmt::format("{}: {} key{} without effect here: {}", config.source(), without_effect.size(),
                                without_effect.size() == 1 ? "" : "s", fmt::join(without_effect, ", ")));
  }
  for (auto const& [kind, path, line, text] : config.notes()) {
    if (kind != config::NoteKind::no_effect && lines.size() < config::Problems::most) {
      auto const where = line > 0 ? fmt::format(" (line {})", line) : std::string{};
      lines.push_back(fmt::format("{}: {}{}: {}", config.source(), path, where, text));
    }
  }
  return lines;
}

std::string in_words(MemoryBytes const& bytes) {
  return fmt::format("parameters {}, gradients {}, optimizer {}, slots {}, scratch {}, total {}",
                     megabytes(bytes.parameters), megabytes(bytes.gradients), megabytes(bytes.optimizer),
                     megabytes(bytes.slots), megabytes(bytes.scratch), megabytes(bytes.total()));
}

std::int64_t lines_every(ReportSettings const& asked) noexcept {
  bool const has_tables =
      asked.wall_clock_breakdown || asked.memory_breakdown || (asked.comms.enabled && asked.comms.verbose);
  return asked.steps_per_print > 0 ? asked.steps_per_print : has_tables ? usual_interval : 0;
}

Reporter::Reporter(ReporterContext context)
    : context_{std::move(context)}, scales_loss_{context_.settings->precision.compute == Dtype::fp16} {
  auto const& asked = settings();
  interval_ = lines_every(asked);
  if (asked.tensorboard.enabled || asked.wandb.enabled) {
    bool const is_open = open("tensorboard.output_path", [&] { return tensorboard_monitor(asked.tensorboard); });
    if (is_open && asked.wandb.enabled) {
      context_.log(upload_of(asked));
    }
  }
  if (asked.csv.enabled) {
    open("csv_monitor.output_path", [&] { return csv_monitor(asked.csv); });
  }
  if (asked.wall_clock_breakdown || asked.comms.enabled || asked.flops.enabled) {
    timeline_ = std::make_unique<Timeline>();
    context_.device->set_timeline(timeline_.get());
  }
}

bool Reporter::open(std::string_view key, std::function<std::unique_ptr<Monitor>()> const& make) {
  try {
    add(make());
    return true;
  } catch (SystemError const& error) {
    context_.log(fmt::format("{}: {}: monitor disabled; training continues", key, bare(error)));
    return false;
  }
}

void Reporter::add(std::unique_ptr<Monitor> monitor) { monitors_.push_back(std::move(monitor)); }

void Reporter::see(StepReport const& report, std::int64_t samples, std::vector<MonitorEvent> metrics,
                   std::optional<RankSpread> const& own_times) {
  skipped_ += report.skipped ? 1 : 0;
  if (!monitors_.empty()) {
    std::vector<MonitorEvent> events{{"Train/Samples/train_loss", report.loss, samples},
                                     {"Train/Samples/lr", report.learning_rate, samples},
                                     {"Train/Samples/grad_norm", report.grad_norm, samples},
                                     {"Train/Samples/elapsed_time_ms_step", report.step_ms, samples}};
    if (scales_loss_) {
      events.push_back({"Train/Samples/loss_scale", report.loss_scale, samples});
    }
    std::ranges::move(metrics, std::back_inserter(events));
    write(events);
  }
  bool const is_line = interval_ > 0 && report.step % interval_ == 0;
  bool const is_profiled = settings().flops.enabled && report.step == profiled_step();
  if (timeline_ && (is_line || is_profiled || report.step % most_kept == 0)) {
    take_spans();
  }
  if (is_profiled) {
    profile(report);
  }
  sums_.step_ms += report.step_ms;
  sums_.exposed_comm_ms += report.exposed_comm_ms;
  sums_.save_ms += report.save_ms;
  ++sum_of_steps_;
  if (is_line) {
    print(report, own_times);
    sums_ = {};
    sum_of_steps_ = 0;
    since_line_.clear();
  }
}

void Reporter::close(std::int64_t step) {
  last_step_ = step;
  if (timeline_) {
    closed_.push_back({step, std::exchange(timeline_, std::make_unique<Timeline>())});
    if (!traced_by_program_) {
      context_.device->set_timeline(timeline_.get());
    }
  }
}

void Reporter::trace(Timeline* timeline) {
  traced_by_program_ = timeline != nullptr;
  context_.device->set_timeline(traced_by_program_ ? timeline : timeline_.get());
}

/// Adds the spans of closed steps to every table that needs them.
void Reporter::take_spans() {
  context_.device->flush_timeline();
  for (auto const& [step, timeline] : closed_) {
    auto const spans = timeline->take();
    if (settings().wall_clock_breakdown) {
      since_line_.add(spans);
    }
    if (settings().comms.enabled) {
      since_start_.add(spans);
    }
    if (settings().flops.enabled && step == profiled_step()) {
      of_step_.add(spans);
    }
  }
  closed_.clear();
}

/// The profiled step is at least 2: the first step is slower than all others.
std::int64_t Reporter::profiled_step() const noexcept {
  return std::max<std::int64_t>(settings().flops.profile_step, 2);
}

void Reporter::profile(StepReport const& report) {
  auto const& asked = settings().flops;
  auto const text = flops_profile(*context_.model, *context_.settings, of_step_, report.step, report.step_ms);
  if (asked.output_file.empty()) {
    return context_.log(text);
  }
  try {
    write_whole_file("the profile", asked.output_file, text + "\n");
  } catch (SystemError const& error) {
    context_.log(fmt::format("flops_profiler.output_file: {}\n{}", bare(error), text));
  }
}

void Reporter::print(StepReport const& report, std::optional<RankSpread> const& own_times) {
  auto const steps = static_cast<double>(sum_of_steps_);
  auto line = fmt::format("step {}: loss {:.6g}, lr {:.6g}, gradient norm {:.6g}, {:.3f} ms a step", report.step,
                          report.loss, report.learning_rate, report.grad_norm, sums_.step_ms / steps);
  if (scales_loss_) {
    line += fmt::format(", loss scale {}", report.loss_scale);
  }
  if (skipped_ > 0) {
    line += fmt::format(", {} skipped so far", skipped_);
  }
  if (settings().memory_breakdown) {
    line += "\n  held at most: " + in_words(context_.device->ledger().peak());
  }
  if (settings().wall_clock_breakdown) {
    line += fmt::format("\n  of {:.3f} ms a step {:.3f} ms waited for communication and {:.3f} ms for a save\n{}",
                        sums_.step_ms / steps, sums_.exposed_comm_ms / steps, sums_.save_ms / steps,
                        breakdown(since_line_, sum_of_steps_));
    if (own_times) {
      line += "\n  own work of a step over ranks, without waits for others: " + describe(*own_times, "ms");
    }
  }
  if (settings().comms.enabled && settings().comms.verbose) {
    line += "\n" + communication_table(*context_.calls, since_start_);
  }
  context_.log(line);
}

void Reporter::write(std::vector<MonitorEvent> const& events) {
  std::erase_if(monitors_, [&](std::unique_ptr<Monitor> const& monitor) {
    try {
      monitor->write(events);
      return false;
    } catch (std::exception const& error) {
      context_.log(fmt::format("{}: monitor disabled; training continues", bare(error)));
      return true;
    }
  });
}

std::string Reporter::communication() {
  if (context_.calls == nullptr) {
    return {};
  }
  take_spans();
  auto sums = since_start_;
  sums.add(timeline_->spans());  // the spans of the current step, which take_spans() adds later
  return communication_table(*context_.calls, sums);
}

void Reporter::end() noexcept {
  try {
    if (context_.calls != nullptr) {
      context_.log("collectives of this rank (comms_logger):\n" + communication());
    }
    if (settings().flops.enabled && last_step_ < profiled_step()) {
      context_.log(
          fmt::format("flops_profiler.profile_step: no profile, because step {} was not reached: the last was {}",
                      profiled_step(), last_step_));
    }
  } catch (...) {  // the device failed or memory ran out: nothing is left to report to
  }
  if (timeline_) {
    context_.device->set_timeline(nullptr);
  }
}

}  // namespace zeroth::engine
