// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulated_rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::simulate {
namespace {

/// The number of steps until they are all alike, and of those that are measured afterwards.
struct Steps {
  int settling, measured;
};

/// The first step differs, and steps from the second on are alike. Workers that may be stale begin a step when they
/// can, until they settle into a period of several steps.
Steps steps_of(Config const& config) {
  constexpr int most = 16;
  auto const staleness = config.parameter_server().staleness;
  auto const more = staleness == 0 ? 0 : 8 * std::min(staleness, most);
  return {2 + more, 1 + more};
}

constexpr double longest_us = 1e15;  // 32 years

constexpr TensorVerb spread[] = {TensorVerb::spread}, add_up[] = {TensorVerb::add_up},
                     spread_and_add_up[] = {TensorVerb::spread, TensorVerb::add_up};

Products operator+(Products const& one, Products const& other) noexcept {
  return {one.flops + other.flops, one.of_attention + other.of_attention};
}

Products backward_of(UnitWork const& work) noexcept {
  double const flops = work.backward_flops;
  return {flops, work.forward_flops > 0 ? flops * work.attention_flops / work.forward_flops : 0};
}

Products recomputed(UnitWork const& work) noexcept {
  return {work.recompute_flops, std::min(work.attention_flops, work.recompute_flops)};
}

}  // namespace

int uses(Model const& model, std::size_t unit) {
  return std::max(1, model.description().units[id_at<UnitId>(unit)].uses_per_micro_step);
}

SimulatedRank::SimulatedRank(Task const& task, VirtualJob& job, int rank, double slowdown)
    : task_{task},
      slowdown_{slowdown},
      job_{job},
      rank_{rank},
      device_{std::make_unique<VirtualDevice>(task_.machine)} {
  state_.communicator = job.communicator(rank);
  state_.make_device = [this] { return shared_device(*device_); };
}

void SimulatedRank::run(Timeline* timeline, RankResult& result) {
  Job job = state_.job();
  Mesh mesh{job, task_.config};
  AnyEngine engine{mesh, task_.model, task_.config};
  if (engine.serves()) {
    serve(engine, result);
    return;
  }
  in_pipeline_ = mesh.pipeline().size > 1;
  samples_ = engine.micro_batch();
  std::optional<TensorSums> sums;
  if (mesh.tensor_part().of > 1) {
    sums_ = &sums.emplace(mesh.tensor().communicator().split(0, mesh.tensor_part().index, "tensor-verbs"), *device_,
                          task_.config.sequence_parallel(), task_.config.compute_dtype());
  }
  auto const steps = steps_of(task_.config);
  int const settling = steps.settling, measured = steps.measured;
  std::vector<StepReport> reports;
  auto const step = [&] {
    if (auto const report = train(engine)) {
      reports.push_back(*report);
    }
  };
  for (int i = 0; i < settling; ++i) {
    // Tracing begins with the step before, whose work may continue into the measured step.
    engine.trace(i + 1 == settling ? timeline : nullptr);
    step();
  }
  auto const tensor_us = [&sums] { return sums ? sums->waited_us() : 0; };
  auto const sent = job_.bytes_sent(rank_);
  auto const before = device_->bubble();
  auto const tensor_before_us = tensor_us();
  for (int i = 0; i < measured; ++i) {
    step_.begin_us = device_->compute().start();
    step();
    step_.end_us = device_->compute().start();
  }
  auto const after = device_->bubble();
  double const for_tensor_us = (tensor_us() - tensor_before_us) / measured;
  auto const sent_in_step = (job_.bytes_sent(rank_) - sent) / measured;
  reports.push_back(*engine.finish());
  auto const mean = [&](double StepReport::*number) {
    return std::accumulate(reports.end() - measured, reports.end(), 0.0,
                           [=](double sum, StepReport const& report) { return sum + report.*number; }) /
           measured;
  };
  result.report = reports.back();
  result.step_ms = mean(&StepReport::step_ms);
  double const for_ranks_us = (after.collectives_us - before.collectives_us) / measured;
  double const for_messages_us = (after.messages_us - before.messages_us) / measured;
  result.figures = {
      .tensor_ms = 1e-3 * for_tensor_us,
      .bubble_ms = 1e-3 * (for_messages_us + for_ranks_us),
      .exposed_comm_ms = std::max(0.0, mean(&StepReport::exposed_comm_ms) - 1e-3 * (for_ranks_us + for_tensor_us)),
      .exposed_io_ms = mean(&StepReport::exposed_io_ms),
      .bytes_sent = sent_in_step,
      .memory = engine.peak()};
}

/// Orders are few bytes, and workers send them, so a server sends the same bytes in every step.
void SimulatedRank::serve(AnyEngine& engine, RankResult& result) {
  auto const [settling, measured] = steps_of(task_.config);
  auto const sent = job_.bytes_sent(rank_);
  engine.serve();
  result.figures.bytes_sent = (job_.bytes_sent(rank_) - sent) / (settling + measured);
  result.figures.memory = engine.peak();
}

std::optional<StepReport> SimulatedRank::train(AnyEngine& engine) {
  auto const units = static_cast<std::uint32_t>(task_.model.description().units.size());
  if (in_pipeline_) {
    for (auto work : engine.schedule()) {
      run(work);
    }
  } else {
    for (auto micro : engine.micro_steps()) {
      for (std::uint32_t unit = 0; unit < units; ++unit) {
        forward(micro, unit);
      }
      static_cast<void>(micro.report_loss(1));
      for (auto unit = units; unit-- > 0;) {
        backward(micro, unit);
      }
    }
  }
  auto report = engine.step({});
  // Checked here, where no guard is open: an engine must outlive its guards.
  if (!(device_->compute().start() <= longest_us)) {
    throw ConfigError{
        fmt::format("machine \"{}\": steps of this model would take more than {:g} seconds, the longest that can be "
                    "simulated; allowed: a machine that is fast enough for the model",
                    task_.machine.name, 1e-6 * longest_us)};
  }
  return report;
}

void SimulatedRank::run(AnyWork& work) {
  auto const units = work.units();
  if (work.phase() == Phase::forward) {
    for (auto const unit : units) {
      forward(work, unit.index());
    }
    if (work.last()) {
      static_cast<void>(work.report_loss(1));
    } else {
      static_cast<void>(work.output());
    }
    return;
  }
  bool const weights = work.phase() == Phase::backward_weights;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    work.phase() == Phase::backward ? backward(work, unit->index()) : half_of_backward(work, unit->index(), weights);
  }
  if (!work.first() && !weights) {
    static_cast<void>(work.input_gradient());
  }
}

template <class Pass>
void SimulatedRank::forward(Pass& pass, std::uint32_t index) {
  auto const& work = work_of(index);
  for (int use = 0; use < uses(task_.model, index); ++use) {
    auto const p = pass.forward(task_.model.unit_at(index));
    compute(work, {work.forward_flops, work.attention_flops}, 1);
    communicate(index, spread_and_add_up, 1, "forward");
  }
}

template <class Pass>
void SimulatedRank::backward(Pass& pass, std::uint32_t index) {
  auto const& work = work_of(index);
  Products const beside{sums_ && task_.machine.rates.tensor_overlap ? work.overlapped_flops : 0};
  auto before = backward_of(work) + recomputed(work);
  before.flops -= beside.flops;
  for (int use = 0; use < uses(task_.model, index); ++use) {
    auto const p = pass.backward(task_.model.unit_at(index));
    contribute(p, index);
    input_gradients(index, before, beside, work.recompute_flops > 0 ? 3 : 2);
  }
}

void SimulatedRank::input_gradients(std::uint32_t index, Products const& products, Products const& rest, int thirds) {
  auto const& work = work_of(index);
  compute(work, products, thirds);
  communicate(index, spread_and_add_up, work.recompute_sums, "backward");
  communicate(index, spread, 1, "backward");
  start(index, add_up, 1, "backward");
  if (rest.flops > 0) {
    compute(work, rest, 0);
  }
  if (sums_) {
    sums_->wait();
  }
}

void SimulatedRank::half_of_backward(AnyWork& pass, std::uint32_t index, bool weights) {
  auto const& work = work_of(index);
  auto const both = backward_of(work);
  Products const half{both.flops / 2, both.of_attention / 2};
  for (int use = 0; use < uses(task_.model, index); ++use) {
    if (weights) {
      auto const p = pass.weights(task_.model.unit_at(index));
      contribute(p, index);
      compute(work, half, 1);
    } else {
      auto const p = pass.inputs(task_.model.unit_at(index));
      input_gradients(index, half + recomputed(work), {}, work.recompute_flops > 0 ? 2 : 1);
    }
  }
}

template <class Guard>
void SimulatedRank::contribute(Guard const& guard, std::uint32_t index) {
  auto const& description = task_.model.description();
  auto const& unit = description.units[id_at<UnitId>(index)];
  for (auto const* params : {&unit.params, &unit.ties}) {
    for (auto const param : *params) {
      if (description.params[param].options.trainable) {
        static_cast<void>(guard.grad(task_.model.param_at(index_of(param))));
      }
    }
  }
}

void SimulatedRank::compute(UnitWork const& work, Products const& products, int thirds) {
  auto const& rates = task_.machine.rates;
  double const peak = task_.machine.peak(task_.config.compute_dtype());
  double const of_attention = rates.attention_efficiency > 0 ? rates.attention_efficiency : rates.math_efficiency;
  double const elements =
      rates.activation_passes * work.activation_elements + rates.parameter_passes * work.matrix_elements;
  double const bytes = elements * static_cast<double>(bytes_of(task_.config.compute_dtype()));
  double const seconds = (products.flops - products.of_attention) / (peak * rates.math_efficiency) +
                         products.of_attention / (peak * of_attention) +
                         thirds * bytes / 3 / task_.machine.memory_bytes_per_s;
  device_->compute().compute(1e6 * slowdown_ * seconds);
}

void SimulatedRank::start(std::uint32_t index, std::span<TensorVerb const> verbs, double times, char const* purpose) {
  if (sums_) {
    auto const& unit = task_.model.description().units[id_at<UnitId>(index)];
    sums_->start(verbs, times * static_cast<double>(samples_ * unit.tensor_sums_per_sample), {purpose, unit.name});
  }
}

void SimulatedRank::communicate(std::uint32_t index, std::span<TensorVerb const> verbs, double times,
                                char const* purpose) {
  start(index, verbs, times, purpose);
  if (sums_) {
    sums_->wait();
  }
}

}  // namespace zeroth::simulate
