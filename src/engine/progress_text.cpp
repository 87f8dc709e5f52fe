// SPDX-License-Identifier: Apache-2.0
#include "engine/progress_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace zeroth::engine {
namespace {

constexpr std::size_t gap_of_parts = 2;

/// A part of the line; parts are in the order of the line.
struct LinePart {
  int order = 0;  // the largest is left out first
  std::string text;
};

/// 0:07, 12:34, 1:02:03, or 123 h.
std::string duration_text(double seconds) {
  constexpr double most_hours = 100, most = 1e12;
  auto const whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, most));
  auto const hours = whole / 3600;
  if (static_cast<double>(hours) >= most_hours) {
    return fmt::format("{} h", hours);
  }
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60)
                   : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::vector<LinePart> parts_of(ProgressOptions const& options, StepReport const& report, ProgressState const& state) {
  auto const per_second = [&](double of_step) { return of_step / report.step_ms * 1e3; };
  bool const is_timed = report.step_ms > 0;
  std::vector<LinePart> parts;
  auto const add = [&](int order, std::string text) { parts.push_back({order, std::move(text)}); };
  add(0,
      options.steps > 0 ? fmt::format("step {}/{}", report.step, options.steps) : fmt::format("step {}", report.step));
  add(1, fmt::format("loss {:.4f}", report.loss));
  add(5, fmt::format("lr {:.3g}", report.learning_rate));
  add(10, fmt::format("norm {:.4g}", report.grad_norm));
  if (report.skipped) {
    add(2, "skipped");
  }
  if (options.tokens_per_step > 0 && is_timed) {
    add(4, fmt::format("{:.0f} tokens/s", per_second(static_cast<double>(options.tokens_per_step))));
  }
  if (options.flops_per_step > 0 && is_timed) {
    auto const rate = per_second(options.flops_per_step);
    add(7, fmt::format("{:.3g} TFLOP/s", 1e-12 * rate));
    if (options.peak_flops_per_s > 0) {
      add(6, fmt::format("MFU {:.1f} %", 100 * rate / options.peak_flops_per_s));
    }
  }
  if (state.bytes > 0) {
    add(9, fmt::format("{:.1f} MiB per rank", static_cast<double>(state.bytes) / 0x1p20));
  }
  add(8, duration_text(state.elapsed_s) + " elapsed");
  if (auto const left = options.steps - report.step; left > 0) {
    add(3, duration_text(static_cast<double>(left) * state.step_s) + " left");
  }
  return parts;
}

/// The largest order whose part fits into `columns` together with all parts of a smaller order.
int last_order(std::vector<LinePart> parts, std::size_t columns) {
  std::ranges::sort(parts, {}, &LinePart::order);
  std::size_t width = 0;
  int last = 0;
  for (auto const& part : parts) {
    width += (width > 0 ? gap_of_parts : 0) + part.text.size();
    if (width > columns) {
      return last;
    }
    last = part.order;
  }
  return last;
}

}  // namespace

std::string progress_text(ProgressOptions const& options, StepReport const& report, ProgressState const& state,
                          int columns) {
  auto const parts = parts_of(options, report, state);
  auto const room = columns > 0 ? static_cast<std::size_t>(columns) : std::numeric_limits<std::size_t>::max();
  auto const last = last_order(parts, room);
  std::string line;
  for (auto const& part : parts) {
    if (part.order <= last) {
      line += fmt::format("{:{}}{}", "", line.empty() ? 0 : gap_of_parts, part.text);
    }
  }
  return line.substr(0, room);
}

}  // namespace zeroth::engine
