// SPDX-License-Identifier: Apache-2.0
#include "engine/flops_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zeroth::engine {
namespace {

/// "1.23 GFLOP"
std::string in_units(double value, std::string_view unit) {
  constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t which = 0;
  for (; value >= 1000 && which + 1 < std::size(prefixes); ++which) {
    value /= 1000;
  }
  return fmt::format("{:.4g} {}{}", value, prefixes[which], unit);
}

std::string rate(double flops, double ms) { return ms > 0 ? in_units(flops / ms * 1e3, "FLOP/s") : "-"; }

std::int64_t elements_of(model::UnitDescription const& unit, model::Description const& model) {
  std::int64_t count = 0;
  for (auto const param : unit.params) {
    count += model.params[param].count;
  }
  return count;
}

}  // namespace

StepFlops flops_of(model::UnitDescription const& unit, model::Description const& model, Settings const& settings) {
  auto const rows = static_cast<double>(unit.rows_per_sample * settings.batch.micro * settings.batch.accumulation);
  StepFlops flops;
  auto const add = [&](ParamId id) {
    auto const& param = model.params[id];
    if (param.shape.size() >= 2) {
      auto const products = 2 * rows * static_cast<double>(param.count);
      flops.forward += products;
      flops.backward += products * ((param.options.trainable ? 2 : 1) + settings.reports.flops.recompute_fwd_factor);
    }
  };
  std::ranges::for_each(unit.params, add);
  std::ranges::for_each(unit.ties, add);
  return flops;
}

std::string flops_profile(model::Description const& model, Settings const& settings, SpanSums const& times,
                          std::int64_t step, double step_ms) {
  StepFlops all;
  double forward_ms = 0, backward_ms = 0, update_ms = 0;
  std::size_t width = 4;
  std::string lines;
  for (auto const& unit : model.units) {
    width = std::max(width, unit.name.size());
  }
  for (auto const& unit : model.units) {
    auto const flops = flops_of(unit, model, settings);
    auto const ms_of = [&](char const* what) { return times.of(what, unit.name).ms; };
    auto const forward = ms_of("forward");
    // A zero-bubble schedule splits backward in two.
    auto const backward = ms_of("backward") + ms_of("backward_inputs") + ms_of("backward_weights");
    update_ms += ms_of("update");
    forward_ms += forward;
    backward_ms += backward;
    all.forward += flops.forward;
    all.backward += flops.backward;
    lines +=
        fmt::format("\n  {:<{}} {:>13} {:>14} {:>10.3f} {:>16} {:>14} {:>11.3f} {:>16}", unit.name, width,
                    elements_of(unit, model), in_units(flops.forward, "FLOP"), forward, rate(flops.forward, forward),
                    in_units(flops.backward, "FLOP"), backward, rate(flops.backward, backward));
  }
  auto const samples = settings.batch.micro * settings.batch.accumulation;
  auto text =
      fmt::format("flops profiler, step {}: {} parameters, {} samples on each rank", step, model.count, samples);
  text += fmt::format("\n  forward  {:>14} in {:>10.3f} ms, {}", in_units(all.forward, "FLOP"), forward_ms,
                      rate(all.forward, forward_ms));
  text += fmt::format("\n  backward {:>14} in {:>10.3f} ms, {}", in_units(all.backward, "FLOP"), backward_ms,
                      rate(all.backward, backward_ms));
  text += fmt::format("\n  update   {:>14} in {:>10.3f} ms", "", update_ms);
  text += fmt::format("\n  step     {:>14} in {:>10.3f} ms, {}; {:.4g} samples/s on each rank",
                      in_units(all.forward + all.backward, "FLOP"), step_ms, rate(all.forward + all.backward, step_ms),
                      step_ms > 0 ? static_cast<double>(samples) / step_ms * 1e3 : 0);
  if (settings.reports.flops.detailed) {
    text += fmt::format("\n  {:<{}} {:>13} {:>14} {:>10} {:>16} {:>14} {:>11} {:>16}", "unit", width, "parameters",
                        "forward", "ms", "", "backward", "ms", "");
    text += lines;
  }
  return text;
}

}  // namespace zeroth::engine
