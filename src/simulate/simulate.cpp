// SPDX-License-Identifier: Apache-2.0
#include "zeroth/simulate/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>

#include "comm/group.hpp"
#include "engine/communicators.hpp"
#include "engine/planning.hpp"
#include "engine/server_plan.hpp"
#include "engine/server_ranks.hpp"
#include "engine/share.hpp"
#include "simulate/rank_threads.hpp"
#include "simulate/seats.hpp"
#include "simulate/simulated_rank.hpp"
#include "simulate/virtual_communicator.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::simulate {
namespace {

/// `workers` is the number of ranks that compute.
void check(Model const& model, int world, int workers, std::span<UnitWork const> work, Options const& options) {
  auto const units = model.description().units.size();
  ZEROTH_EXPECTS(work.size() == units,
                 fmt::format("simulate: work is given for {} units, but the model has {}", work.size(), units));
  for (auto const& [rank, factor] : options.slowdown) {
    ZEROTH_EXPECTS(options.all_ranks, "simulate: slowdowns of single ranks are given without all_ranks; set all_ranks");
    ZEROTH_EXPECTS(rank >= 0 && rank < workers && factor > 0,
                   fmt::format("simulate: slowdown of rank {} by {}: ranks are 0 to {}{}, factors above 0", rank,
                               factor, workers - 1, workers < world ? ", which are workers" : ""));
  }
}

/// Adds the spans of `all` within `period` to `part`, with times relative to its begin.
void copy_part(Timeline const& all, SimulatedRank::Period const& period, Timeline& part) {
  for (auto span : all.spans()) {
    bool const at_once = span.begin_us == span.end_us;
    if (span.begin_us < period.end_us && (at_once ? span.begin_us >= period.begin_us : span.end_us > period.begin_us)) {
      span.begin_us = std::max(span.begin_us, period.begin_us) - period.begin_us;
      span.end_us = std::min(span.end_us, period.end_us) - period.begin_us;
      part.add(std::move(span));
    }
  }
}

/// The factor by which the math of `rank` is slower. It stands for `tensor` ranks from it on, which wait for their
/// slowest one whenever they add up.
double slowdown_of(int rank, int tensor, std::map<int, double> const& slowdown) {
  double slowest = 0;
  for (int each = rank; each < rank + tensor; ++each) {
    auto const slow = slowdown.find(each);
    slowest = std::max(slowest, slow == slowdown.end() ? 1 : slow->second);
  }
  return slowest;
}

/// The splits of communicators if not all of their ranks are simulated: those of the job's communicator by Mesh and its
/// engine, and those of the data ranks' communicator by the engine.
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

/// The same with parameter servers. Only the first server exists, and all `workers` workers.
ExpectedSplits expected_splits_with_servers(Model const& model, Config const& config, int workers) {
  auto const& whole = model.description();
  auto const alone = engine::make_blueprint(whole, whole, config, workers, {});
  auto const server = engine::with_servers(alone, whole, true);
  auto const places = server.request.places;
  bool const is_stale = config.parameter_server().staleness > 0;
  shard::ChannelSplits const channels{workers, config.parameter_server().servers};
  return [=, splits = engine::splits_of(server.settings, server.request)](comm::Group const& parent, std::size_t split,
                                                                          int rank) -> comm::SplitRequest {
    if (parent.name == "world") {
      return engine::ServerRanks::split_of_job(split, rank, workers, is_stale);
    }
    if (parent.name == engine::ServerRanks::name_of_all) {
      return channels.request(rank, static_cast<int>(split) / 2);
    }
    return {splits.at(split).color(places, rank), places.place_of(rank)};
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

/// Means of times and maxima of bytes over the stages of a pipeline, from the first of `ranks` of each stage.
Simulation of_stages(std::vector<RankResult> const& ranks, std::size_t stages) {
  Simulation result;
  result.report = ranks.front().report;
  result.step_ms = ranks.front().step_ms;
  auto const share = 1 / static_cast<double>(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    auto const& figures = ranks[stage * (ranks.size() / stages)].figures;
    result.tensor_ms += share * figures.tensor_ms;
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

double mean_step_ms(std::span<RankResult const> workers) {
  double sum = 0;
  for (auto const& each : workers) {
    sum += each.step_ms;
  }
  return sum / static_cast<double>(workers.size());
}

}  // namespace

Simulation run(Model const& model, Config const& config, int world, std::span<UnitWork const> work,
               Machine const& machine, Options const& options) {
  auto const tensor = config.tensor_ranks();
  ZEROTH_EXPECTS(model.tensor_part() == (TensorPart{0, tensor}),
                 fmt::format("zeroth.mesh.tensor is {}, but the model to simulate was made for tensor rank {} of {}: "
                             "make it for the first of the same number",
                             tensor, model.tensor_part().index, model.tensor_part().of));
  ZEROTH_EXPECTS(world >= 1, fmt::format("simulate: world is {}, must be 1 or more", world));
  auto const stages = config.pipeline().stages;
  auto const of_stage = engine::data_ranks(config, world);
  auto const servers = config.parameter_server().servers;
  check(model, world, world - servers, work, options);
  auto chosen = simulated_ranks(world - servers, of_stage, tensor, options.all_ranks || servers > 0);
  auto const workers = chosen.size();
  if (servers > 0) {
    chosen.push_back(world - servers);
  }
  auto const simulated = chosen.size();
  VirtualJob job{
      machine, world, chosen,
      servers > 0 ? expected_splits_with_servers(model, config, of_stage) : expected_splits(model, config, world),
      Seats{{tensor, servers > 0 ? world : of_stage, stages}, options.nearness}};
  if (servers > 0) {
    job.mirror_last();
  }
  auto const traced = options.timelines ? workers : 0;
  std::vector<Timeline> timelines(traced);
  std::vector<RankResult> results(simulated);
  std::deque<SimulatedRank> ranks;  // a deque, since ranks are referred to by address
  double const nodes = std::ceil(static_cast<double>(world - servers) / machine.ranks_per_node);
  double const waits_for_slowest = 1 + machine.straggler_per_doubling * std::log2(nodes);
  std::vector<SimulatedPace> paces;
  for (auto const rank : chosen) {
    auto const slowdown = slowdown_of(rank, tensor, options.slowdown);
    if (rank < world - servers) {
      paces.push_back({rank, slowdown});
    }
    ranks.emplace_back(Task{model, config, work, machine}, job, rank, waits_for_slowest * slowdown);
  }
  auto const run_rank = [&](std::size_t rank) {
    ranks[rank].run(rank < traced ? &timelines[rank] : nullptr, results[rank]);
  };
  run_rank_threads(simulated, run_rank, [&](std::string const& reason) { job.abort(reason); });

  auto result = of_stages(results, static_cast<std::size_t>(stages));
  if (servers > 0) {
    result.server = {results.back().figures.bytes_sent, results.back().figures.memory};
    result.step_ms = mean_step_ms(std::span{results}.first(workers));
  }
  result.ranks = paces;
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
