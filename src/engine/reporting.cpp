// SPDX-License-Identifier: Apache-2.0
#include "engine/reporting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "engine/communication.hpp"
#include "engine/flops_profile.hpp"
#include "zeroth/config/problem.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/core/whole_file.hpp"

namespace zeroth::engine {
namespace {

constexpr std::int64_t usual_interval = 10;  // of tables where the file has no steps_per_print
constexpr std::int64_t most_kept = 10;       // steps whose spans are kept until they are added up

std::string megabytes(std::int64_t bytes) { return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6); }

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
    if (kind == config::NoteKind::unknown && lines.size() < config::Problems::most) {
      lines.push_back(fmt::format("{}: {} (line {}): {}", config.source(), path, line, text));
    }
  }
  return lines;
}

std::string in_words(MemoryBytes const& bytes) {
  return fmt::format("parameters {}, gradients {}, optimizer {}, slots {}, scratch {}, total {}",
                     megabytes(bytes.parameters), megabytes(bytes.gradients), megabytes(bytes.optimizer),
                     megabytes(bytes.slots), megabytes(bytes.scratch), megabytes(bytes.total()));
}

Reporter::Reporter(ReporterContext context)
    : context_{std::move(context)}, scales_loss_{context_.settings->precision.compute == Dtype::fp16} {
  auto const& asked = settings();
  bool const has_tables =
      asked.wall_clock_breakdown || asked.memory_breakdown || (asked.comms.enabled && asked.comms.verbose);
  interval_ = asked.steps_per_print > 0 ? asked.steps_per_print : has_tables ? usual_interval : 0;
  if (asked.tensorboard.enabled) {
    add(tensorboard_monitor(asked.tensorboard));
  }
  if (asked.csv.enabled) {
    add(csv_monitor(asked.csv));
  }
  if (asked.wandb.enabled) {
    add(wandb_monitor(asked.wandb));
  }
  if (asked.wall_clock_breakdown || asked.comms.enabled || asked.flops.enabled) {
    timeline_ = std::make_unique<Timeline>();
    context_.device->set_timeline(timeline_.get());
  }
}

void Reporter::add(std::unique_ptr<Monitor> monitor) {
  if (auto const told = monitor->told(); !told.empty()) {
    context_.log(told);
  }
  monitors_.push_back(std::move(monitor));
}

void Reporter::see(StepReport const& report, std::int64_t samples, std::vector<MonitorEvent> metrics) {
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
  if (settings().flops.enabled) {
    profile(report);
  }
  bool const is_line = interval_ > 0 && report.step % interval_ == 0;
  if (timeline_ && (is_line || report.step % most_kept == 0)) {
    take_spans();
  }
  sums_.step_ms += report.step_ms;
  sums_.exposed_comm_ms += report.exposed_comm_ms;
  sums_.save_ms += report.save_ms;
  ++sum_of_steps_;
  if (is_line) {
    print(report);
    sums_ = {};
    sum_of_steps_ = 0;
    since_line_.clear();
  }
}

/// Adds up the spans so far, for every table that is to have them.
void Reporter::take_spans() {
  context_.device->flush_timeline();
  auto const spans = timeline_->take();
  if (settings().wall_clock_breakdown) {
    since_line_.add(spans);
  }
  if (settings().comms.enabled) {
    since_start_.add(spans);
  }
  if (profiles_) {
    of_step_.add(spans);
  }
}

/// From one report to the next there are the passes of one step and one update.
void Reporter::profile(StepReport const& report) {
  auto const& asked = settings().flops;
  auto const step = std::max<std::int64_t>(asked.profile_step, 2);
  if (report.step == step) {
    take_spans();
    profiles_ = false;
    auto const text = flops_profile(*context_.model, *context_.settings, of_step_, step, report.step_ms);
    if (asked.output_file.empty()) {
      return context_.log(text);
    }
    try {
      write_whole_file("the profile", asked.output_file, text + "\n");
    } catch (SystemError const& error) {
      context_.log(fmt::format("flops_profiler.output_file: {}\n{}", error.what(), text));
    }
  } else if (report.step + 1 == step) {
    take_spans();
    profiles_ = true;
  }
}

void Reporter::print(StepReport const& report) {
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
      context_.log(fmt::format("{}: nothing more is written there; training goes on", error.what()));
      return true;
    }
  });
}

std::string Reporter::communication() {
  if (context_.calls == nullptr) {
    return {};
  }
  take_spans();
  return communication_table(*context_.calls, since_start_);
}

void Reporter::end() noexcept {
  try {
    if (context_.calls != nullptr) {
      context_.log("collectives of this rank (comms_logger):\n" + communication());
    }
  } catch (...) {  // of a device that failed, or of no memory: there is nobody to tell
  }
  if (timeline_) {
    context_.device->set_timeline(nullptr);
  }
}

}  // namespace zeroth::engine
