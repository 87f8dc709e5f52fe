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
#include "engine/share.hpp"
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

/// Operations of products, and those of them that are attention's.
struct Products {
  double flops = 0, of_attention = 0;
};

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

/// How often a unit runs in a micro-step.
int uses(Model const& model, std::size_t unit) {
  return std::max(1, model.description().units[id_at<UnitId>(unit)].uses_per_micro_step);
}

/// What a rank has of its last step.
struct RankResult {
  StepReport report;
  SimulatedStage figures;
};

/// One rank that trains on a clock.
class SimulatedRank {
 public:
  SimulatedRank(Task const& task, VirtualJob& job, int rank, double slowdown)
      : task_{task}, slowdown_{slowdown}, job_{job}, rank_{rank} {
    state_.communicator = job.communicator(rank);
    state_.make_device = [this]() -> std::unique_ptr<device::Device> {
      if (device_ != nullptr) {
        return shared_device(*device_);
      }
      auto device = std::make_unique<VirtualDevice>(task_.machine);
      device_ = device.get();
      return device;
    };
  }

  void run(Timeline* timeline, RankResult& result) {
    Job job = state_.job();
    Mesh mesh{job, task_.config};
    AnyEngine engine{mesh, task_.model, task_.config};
    in_pipeline_ = mesh.pipeline().size > 1;
    samples_ = engine.micro_batch();
    if (mesh.tensor_part().of > 1) {
      verbs_ = mesh.tensor().communicator().split(0, mesh.tensor_part().index, "tensor-verbs");
    }
    for (int step = 0; step < settling_steps; ++step) {
      // Also of the step before: what it began may run on.
      engine.trace(step + 1 == settling_steps ? timeline : nullptr);
      train(engine);
    }
    auto const sent = job_.bytes_sent(rank_);
    auto const before = device_->bubble();
    step_.begin_us = device_->compute().start();
    train(engine);
    step_.end_us = device_->compute().start();
    auto const after = device_->bubble();
    auto const sent_in_step = job_.bytes_sent(rank_) - sent;
    result.report = *engine.finish();
    double const for_ranks = after.collectives_us - before.collectives_us;
    result.figures = {.bubble_ms = 1e-3 * (after.messages_us - before.messages_us + for_ranks),
                      .exposed_comm_ms = std::max(0.0, result.report.exposed_comm_ms - 1e-3 * for_ranks),
                      .exposed_io_ms = result.report.exposed_io_ms,
                      .bytes_sent = sent_in_step,
                      .memory = engine.peak()};
  }
  /// When the last step was.
  [[nodiscard]] Period const& step() const noexcept { return step_; }

 private:
  void train(AnyEngine& engine) {
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
    static_cast<void>(engine.step({}));
    // Here, where no guard is open: an engine does not end before its guards.
    if (!(device_->compute().start() <= longest_us)) {
      throw ConfigError{fmt::format(
          "machine \"{}\": steps of this model would take more than {:g} seconds, and that is no simulation's; "
          "allowed: a machine that is fast enough for the model",
          task_.machine.name, 1e-6 * longest_us)};
    }
  }

  /// An action of a stage of a pipeline.
  void run(AnyWork& work) {
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
  void forward(Pass& pass, std::uint32_t unit) {
    for (int use = 0; use < uses_of(unit); ++use) {
      auto const p = pass.forward(task_.model.unit_at(unit));
      auto const& work = task_.work[unit];
      compute(work, {work.forward_flops, work.attention_flops}, 1);
      add_up(unit, "forward");
    }
  }
  template <class Pass>
  void backward(Pass& pass, std::uint32_t unit) {
    for (int use = 0; use < uses_of(unit); ++use) {
      backward_once(pass, unit);
    }
  }
  template <class Pass>
  void backward_once(Pass& pass, std::uint32_t index) {
    auto const p = pass.backward(task_.model.unit_at(index));
    contribute(p, index);
    auto const& work = task_.work[index];
    compute(work, backward_of(work) + recomputed(work), work.recompute_flops > 0 ? 3 : 2);
    add_up(index, "backward", 1 + work.recompute_sums);
  }
  /// Of a zero-bubble schedule. What is recomputed is so for the gradients by inputs, and kept for those of weights.
  void half_of_backward(AnyWork& pass, std::uint32_t index, bool weights) {
    auto const& work = task_.work[index];
    auto const both = backward_of(work);
    Products const half{both.flops / 2, both.of_attention / 2};
    for (int use = 0; use < uses_of(index); ++use) {
      if (weights) {
        auto const p = pass.weights(task_.model.unit_at(index));
        contribute(p, index);
        compute(work, half, 1);
      } else {
        auto const p = pass.inputs(task_.model.unit_at(index));
        compute(work, half + recomputed(work), work.recompute_flops > 0 ? 2 : 1);
        add_up(index, "backward", 1 + work.recompute_sums);
      }
    }
  }
  template <class Guard>
  void contribute(Guard const& guard, std::uint32_t index) {
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

  /// Products of a unit, and `thirds` of the passes over its activations and matrices: forward has one, backward two.
  void compute(UnitWork const& work, Products const& products, int thirds) {
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

  /// What tensor ranks tell each other in a unit, which computes nothing meanwhile.
  void add_up(std::uint32_t index, char const* purpose, double times = 1) {
    auto const& unit = task_.model.description().units[id_at<UnitId>(index)];
    auto const once = static_cast<double>(samples_ * unit.tensor_sums_per_sample);
    if (auto const count = static_cast<std::int64_t>(times * once); verbs_ && count > 0) {
      comm::Collective const sum{.operation = comm::Operation::all_reduce,
                                 .input = VirtualDevice::unreal_address(),
                                 .output = VirtualDevice::unreal_address(),
                                 .count = count,
                                 .dtype = task_.config.compute_dtype()};
      verbs_->submit(device_->compute(), {purpose, unit.name}, {&sum, 1});
    }
  }

  [[nodiscard]] int uses_of(std::uint32_t unit) const { return uses(task_.model, unit); }

  Task task_;
  double slowdown_;
  VirtualJob& job_;
  int rank_;
  detail::JobState state_;
  VirtualDevice* device_ = nullptr;
  bool in_pipeline_ = false;
  std::int64_t samples_ = 0;                   // of a micro-step
  std::unique_ptr<comm::Communicator> verbs_;  // of tensor ranks; null: there is one
  Period step_;
};

void check(Model const& model, int world, int tensor, std::span<UnitWork const> work, Options const& options) {
  auto const units = model.description().units.size();
  ZEROTH_EXPECTS(work.size() == units, fmt::format("simulate: work of {} units for a model of {}", work.size(), units));
  ZEROTH_EXPECTS(world >= 1, fmt::format("simulate: world is {}, must be 1 or more", world));
  for (auto const& [rank, factor] : options.slowdown) {
    ZEROTH_EXPECTS(options.all_ranks, "simulate: a slowdown of single ranks needs all_ranks");
    ZEROTH_EXPECTS(rank >= 0 && rank < world && factor > 0,
                   fmt::format("simulate: slowdown of rank {} by {}: ranks are 0 to {}, factors above 0", rank, factor,
                               world - 1));
    ZEROTH_EXPECTS(
        rank % tensor == 0,
        fmt::format("simulate: slowdown of rank {} with zeroth.mesh.tensor {}: of tensor ranks the first ones "
                    "are simulated; allowed are multiples of {}",
                    rank, tensor, tensor));
  }
}

/// What ranks will split of communicators that not all of their ranks are simulated of: that of the job as Mesh and its
/// engine do, that of the ranks along data as the engine does.
ExpectedSplits expected_splits(Model const& model, Config const& config, int world) {
  auto const stages = config.pipeline().stages;
  auto const tensor = config.tensor_ranks();
  auto const data = engine::data_ranks(config, world);
  auto const& whole = model.description();
  auto first = engine::Share{whole, config.pipeline(), 0};
  auto const blueprint = engine::make_blueprint(first.take_part(), whole, config, data, {});
  auto const places = blueprint.request.places;
  using Request = std::function<comm::SplitRequest(int rank)>;
  std::vector<Request> of_world;
  if (tensor > 1) {
    of_world.emplace_back([=](int rank) { return comm::SplitRequest{rank / tensor, rank % tensor}; });
  }
  if (stages * tensor > 1) {
    of_world.emplace_back([=](int rank) {
      return comm::SplitRequest{rank / tensor / data * tensor + rank % tensor, rank / tensor % data};
    });
  }
  if (stages > 1) {
    of_world.emplace_back([=](int rank) {
      return comm::SplitRequest{rank / tensor % data * tensor + rank % tensor, rank / tensor / data};
    });
  }
  if (tensor > 1) {
    of_world.emplace_back([=](int rank) {
      return comm::SplitRequest{rank / tensor % data, rank / tensor / data * tensor + rank % tensor};
    });
  }
  return [of_world, places, splits = engine::splits_of(blueprint.settings, blueprint.request)](
             comm::Group const& parent, std::size_t split, int rank) -> comm::SplitRequest {
    bool const of_data = parent.name == "data" || of_world.empty();
    if (of_data) {
      return {splits.at(split).color(places, rank), places.place_of(rank)};
    }
    return parent.name == "world" && split < of_world.size() ? of_world[split](rank) : comm::SplitRequest{0, rank};
  };
}

/// All ranks, or one that stands for all, of each stage of a pipeline. With tensor ranks, the first of them.
std::vector<int> simulated_ranks(int world, int data, int tensor, bool all) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world; rank += all ? tensor : data * tensor) {
    ranks.push_back(rank);
  }
  return ranks;
}

/// Means of times, and the most of bytes, over the stages of a pipeline: of each the first of `ranks`.
Simulation of_stages(std::vector<RankResult> const& ranks, std::size_t stages) {
  Simulation result;
  result.report = ranks.front().report;
  result.step_ms = result.report.step_ms;
  auto const share = 1 / static_cast<double>(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    auto const& figures = ranks[stage * (ranks.size() / stages)].figures;
    result.bubble_ms += share * figures.bubble_ms;
    result.exposed_comm_ms += share * figures.exposed_comm_ms;
    result.exposed_io_ms += share * figures.exposed_io_ms;
    result.bytes_sent = std::max(result.bytes_sent, figures.bytes_sent);
    result.memory = stage == 0 || figures.memory.total() > result.memory.total() ? figures.memory : result.memory;
    if (stages > 1) {
      result.pipeline.push_back(figures);
    }
  }
  return result;
}

}  // namespace

Simulation run(Model const& model, Config const& config, int world, std::span<UnitWork const> work,
               Machine const& machine, Options const& options) {
  auto const tensor = config.tensor_ranks();
  ZEROTH_EXPECTS(
      model.tensor_part() == (TensorPart{0, tensor}),
      fmt::format("a simulation with zeroth.mesh.tensor {} of a model that was made for tensor rank {} of {}: "
                  "the first one of as many is simulated",
                  tensor, model.tensor_part().index, model.tensor_part().of));
  check(model, world, tensor, work, options);
  auto const stages = config.pipeline().stages;
  auto const of_stage = engine::data_ranks(config, world);
  auto const chosen = simulated_ranks(world, of_stage, tensor, options.all_ranks);
  auto const simulated = chosen.size();
  VirtualJob job{machine, world, chosen, expected_splits(model, config, world)};
  auto const traced = options.timelines ? simulated : 0;
  std::vector<Timeline> timelines(traced);
  std::vector<RankResult> results(simulated);
  std::deque<SimulatedRank> ranks;  // stay where they are: a rank is spoken of by its address
  double const nodes = std::ceil(static_cast<double>(world) / machine.ranks_per_node);
  double const waits_for_slowest = 1 + machine.straggler_per_doubling * std::log2(nodes);
  for (auto const rank : chosen) {
    auto const slow = options.slowdown.find(rank);
    ranks.emplace_back(Task{model, config, work, machine}, job, rank,
                       waits_for_slowest * (slow == options.slowdown.end() ? 1.0 : slow->second));
  }
  auto const run_rank = [&](std::size_t rank) {
    ranks[rank].run(traced > 0 ? &timelines[rank] : nullptr, results[rank]);
  };
  run_rank_threads(simulated, run_rank, [&](std::string const& reason) { job.abort(reason); });

  auto result = of_stages(results, static_cast<std::size_t>(stages));
  result.timelines = std::vector<Timeline>(traced);
  for (std::size_t rank = 0; rank < traced; ++rank) {
    copy_part(timelines[rank], ranks.front().step(), result.timelines[rank]);
  }
  double useful = 0;
  for (std::size_t unit = 0; unit < work.size(); ++unit) {
    useful += (work[unit].forward_flops + work[unit].backward_flops) * uses(model, unit);
  }
  useful *= static_cast<double>(config.settings(of_stage, 1).batch.accumulation) / stages;
  result.mfu = useful / (1e-3 * result.step_ms) / machine.peak(config.compute_dtype());
  return result;
}

}  // namespace zeroth::simulate
