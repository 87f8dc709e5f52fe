// SPDX-License-Identifier: Apache-2.0
#include "zeroth/simulate/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>

#include "comm/group.hpp"
#include "comm/launch/job_state.hpp"
#include "engine/communicators.hpp"
#include "engine/planning.hpp"
#include "simulate/rank_threads.hpp"
#include "simulate/virtual_communicator.hpp"
#include "simulate/virtual_device.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/any_engine.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::simulate {
namespace {

/// In the first step everything is new; from the second on one is as the other.
constexpr int settling_steps = 2;
constexpr double longest_us = 1e15;  // 32 years

struct Period {
  double begin_us = 0, end_us = 0;
};

/// Adds to `part` what of `all` is in `period`, with times from its begin.
void copy_part(Timeline const& all, Period const& period, Timeline& part) {
  for (auto span : all.spans()) {
    bool const at_once = span.begin_us == span.end_us;
    if (span.begin_us < period.end_us && (at_once ? span.begin_us >= period.begin_us : span.end_us > period.begin_us)) {
      span.begin_us = std::max(span.begin_us, period.begin_us) - period.begin_us;
      span.end_us = std::min(span.end_us, period.end_us) - period.begin_us;
      part.add(std::move(span));
    }
  }
}

struct Task {
  Model const& model;
  Config const& config;
  std::span<UnitWork const> work;
  Machine const& machine;
};

/// How often a unit runs in a micro-step.
int uses(Model const& model, std::size_t unit) {
  return std::max(1, model.description().units[id_at<UnitId>(unit)].uses_per_micro_step);
}

/// One rank that trains on a clock.
class SimulatedRank {
 public:
  SimulatedRank(Task const& task, VirtualJob& job, int rank, double slowdown)
      : task_{task}, slowdown_{slowdown}, job_{job}, rank_{rank} {
    state_.communicator = job.communicator(rank);
    state_.make_device = [this] {
      auto device = std::make_unique<VirtualDevice>(task_.machine);
      device_ = device.get();
      return device;
    };
  }

  void run(Timeline* timeline, Simulation& result) {
    Job job = state_.job();
    AnyEngine engine{job, task_.model, task_.config};
    for (int step = 0; step < settling_steps; ++step) {
      // Also of the step before: what it began may run on.
      engine.trace(step + 1 == settling_steps ? timeline : nullptr);
      train(engine);
    }
    auto const sent = job_.bytes_sent(rank_);
    step_.begin_us = device_->compute().start();
    train(engine);
    step_.end_us = device_->compute().start();
    result.bytes_sent = job_.bytes_sent(rank_) - sent;
    result.report = *engine.finish();
    result.memory = engine.peak();
  }
  /// When the last step was.
  [[nodiscard]] Period const& step() const noexcept { return step_; }

 private:
  void train(AnyEngine& engine) {
    auto const units = static_cast<std::uint32_t>(task_.model.description().units.size());
    for (auto micro : engine.micro_steps()) {
      for (std::uint32_t unit = 0; unit < units; ++unit) {
        for (int use = 0; use < uses_of(unit); ++use) {
          auto const p = micro.forward(task_.model.unit_at(unit));
          compute(task_.work[unit], task_.work[unit].forward_flops, 1);
        }
      }
      static_cast<void>(micro.report_loss(1));
      for (auto unit = units; unit-- > 0;) {
        for (int use = 0; use < uses_of(unit); ++use) {
          backward(micro, unit);
        }
      }
    }
    static_cast<void>(engine.step({}));
    // Here, where no guard is open: an engine does not end before its guards.
    if (!(device_->compute().start() <= longest_us)) {
      throw ConfigError{fmt::format(
          "machine \"{}\": steps of this model would take more than {:g} seconds, and that is no simulation's; "
          "allowed: a machine that is fast enough for the model",
          task_.machine.name, 1e-6 * longest_us)};
    }
  }

  void backward(AnyMicroStep& micro, std::uint32_t index) {
    auto const p = micro.backward(task_.model.unit_at(index));
    auto const& description = task_.model.description();
    auto const& unit = description.units[id_at<UnitId>(index)];
    for (auto const* params : {&unit.params, &unit.ties}) {
      for (auto const param : *params) {
        if (description.params[param].options.trainable) {
          static_cast<void>(p.grad(task_.model.param_at(index_of(param))));
        }
      }
    }
    auto const& work = task_.work[index];
    compute(work, work.backward_flops + work.recompute_flops, work.recompute_flops > 0 ? 3 : 2);
  }

  /// `flops` of a unit, and `thirds` of the passes over its activations: forward has one, backward two.
  void compute(UnitWork const& work, double flops, int thirds) {
    auto const& rates = task_.machine.rates;
    double const peak = task_.machine.peak(task_.config.compute_dtype());
    double const attention = work.forward_flops > 0 ? flops * work.attention_flops / work.forward_flops : 0;
    double const of_attention = rates.attention_efficiency > 0 ? rates.attention_efficiency : rates.math_efficiency;
    double const bytes = work.activation_elements * static_cast<double>(bytes_of(task_.config.compute_dtype()));
    double const seconds = (flops - attention) / (peak * rates.math_efficiency) + attention / (peak * of_attention) +
                           rates.activation_passes * thirds / 3 * bytes / task_.machine.memory_bytes_per_s;
    device_->compute().compute(1e6 * slowdown_ * seconds);
  }

  [[nodiscard]] int uses_of(std::uint32_t unit) const { return uses(task_.model, unit); }

  Task task_;
  double slowdown_;
  VirtualJob& job_;
  int rank_;
  detail::JobState state_;
  VirtualDevice* device_ = nullptr;
  Period step_;
};

void check(Model const& model, int world, std::span<UnitWork const> work, Options const& options) {
  auto const units = model.description().units.size();
  ZEROTH_EXPECTS(work.size() == units, fmt::format("simulate: work of {} units for a model of {}", work.size(), units));
  ZEROTH_EXPECTS(world >= 1, fmt::format("simulate: world is {}, must be 1 or more", world));
  for (auto const& [rank, factor] : options.slowdown) {
    ZEROTH_EXPECTS(options.all_ranks, "simulate: a slowdown of single ranks needs all_ranks");
    ZEROTH_EXPECTS(rank >= 0 && rank < world && factor > 0,
                   fmt::format("simulate: slowdown of rank {} by {}: ranks are 0 to {}, factors above 0", rank, factor,
                               world - 1));
  }
}

/// What the engine of each rank will split.
ExpectedSplits splits_of_engine(Model const& model, Config const& config, int world) {
  auto const blueprint = engine::make_blueprint(model.description(), model.description(), config, world, {});
  auto const places = blueprint.request.places;
  return [places, splits = engine::splits_of(blueprint.settings, blueprint.request)](std::size_t split, int rank) {
    return comm::SplitRequest{splits.at(split).color(places, rank), places.place_of(rank)};
  };
}

}  // namespace

Simulation run(Model const& model, Config const& config, int world, std::span<UnitWork const> work,
               Machine const& machine, Options const& options) {
  check(model, world, work, options);
  auto const simulated = static_cast<std::size_t>(options.all_ranks ? world : 1);
  VirtualJob job{machine, world, static_cast<int>(simulated), splits_of_engine(model, config, world)};
  auto const traced = options.timelines ? simulated : 0;
  std::vector<Timeline> timelines(traced);
  std::vector<Simulation> results(simulated);
  std::deque<SimulatedRank> ranks;  // stay where they are: a rank is spoken of by its address
  double const nodes = std::ceil(static_cast<double>(world) / machine.ranks_per_node);
  double const waits_for_slowest = 1 + machine.straggler_per_doubling * std::log2(nodes);
  for (int rank = 0; rank < static_cast<int>(simulated); ++rank) {
    auto const slow = options.slowdown.find(rank);
    ranks.emplace_back(Task{model, config, work, machine}, job, rank,
                       waits_for_slowest * (slow == options.slowdown.end() ? 1.0 : slow->second));
  }
  auto const run_rank = [&](std::size_t rank) {
    ranks[rank].run(traced > 0 ? &timelines[rank] : nullptr, results[rank]);
  };
  run_rank_threads(simulated, run_rank, [&](std::string const& reason) { job.abort(reason); });

  Simulation result = std::move(results.front());
  result.timelines = std::vector<Timeline>(traced);
  for (std::size_t rank = 0; rank < traced; ++rank) {
    copy_part(timelines[rank], ranks.front().step(), result.timelines[rank]);
  }
  result.step_ms = result.report.step_ms;
  result.exposed_comm_ms = result.report.exposed_comm_ms;
  result.exposed_io_ms = result.report.exposed_io_ms;
  double useful = 0;
  for (std::size_t unit = 0; unit < work.size(); ++unit) {
    useful += (work[unit].forward_flops + work[unit].backward_flops) * uses(model, unit);
  }
  useful *= static_cast<double>(config.settings(world, 1).batch.accumulation);
  result.mfu = useful / (1e-3 * result.step_ms) / machine.peak(config.compute_dtype());
  return result;
}

}  // namespace zeroth::simulate
