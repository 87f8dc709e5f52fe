// SPDX-License-Identifier: Apache-2.0
#include "shard/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <type_traits>

#include "core/bytes_at.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {
namespace {

static_assert(sizeof(optim::StepSums) % sizeof(double) == 0);
static_assert(std::is_trivially_copyable_v<StepMemory>);  // it starts as a copy of the host's

}  // namespace

Optimizer::Optimizer(Memory& memory, optim::LossScaleState const& loss_scale)
    : memory_{&memory},
      stream_{memory.context().reduce_stream},
      comm_{memory.context().reduce.all()},
      step_{memory.step()},
      host_{memory.context().device->allocate_host(sizeof(StepResults))},
      results_{::new (host_->data()) StepResults{}},
      decided_{memory.context().device->make_event()} {
  auto const& rule = memory.request().update.rule;
  ZEROTH_EXPECTS(memory.kernels().runs(rule),
                 fmt::format("the rule \"{}\" is the program's own, which {} does not run: it is for CPUs",
                             optim::name_of(rule), memory.context().device->name()));
  for (auto const flat : memory.layout().flats().ids()) {
    segments_.push_back(segments_of(flat, {0, memory.in_memory_count(flat)}));
  }
  for (auto const& tile : memory.plan().disk.tiles) {
    of_tiles_.push_back(segments_of(tile.flat, tile.elements));
  }
  for (auto const& tile : memory.plan().parameters_disk.tiles) {
    of_parameters_.push_back(segments_of(tile.flat, tile.elements));
  }
  if (memory.disk() != nullptr && memory.disk()->host() != nullptr) {
    memory.disk()->host()->set_tiles(host_tiles());
  }
  begin_states();
  results_->initial.scalars.loss_scale = loss_scale;
  memory.kernels().copy(memory.compute(), step_, &results_->initial, sizeof(StepMemory));
  memory.compute().synchronize();
}

/// Of elements that are counted from the first that the optimizer holds.
std::vector<optim::Segment> Optimizer::segments_of(FlatId flat, Range elements) const {
  auto const first = memory_->optimized(flat).begin;
  return segments(memory_->model(), memory_->flat(flat).trainable, {first + elements.begin, first + elements.end});
}

/// Memory is allocated with zeros, which padding keeps, and a disk has zeros too.
void Optimizer::begin_states() {
  constexpr std::int64_t most = 1 << 16;
  auto const states = optim::states_of(memory_->request().update.rule);
  if (std::ranges::all_of(states, [](auto const& state) { return state.initial == 0; })) {
    return;
  }
  auto const dtype = memory_->request().precision.states;
  auto const piece = memory_->context().device->allocate_host(most * bytes_of(Dtype::fp32));
  auto* const values = reinterpret_cast<float*>(piece->data());
  for (std::size_t k = 0; k < states.size(); ++k) {
    std::fill_n(values, most, states[k].initial);
    for (auto const flat : memory_->layout().flats().ids()) {
      auto* const state = memory_->addresses(flat).states[k];
      for (auto const& segment : segments_[flat]) {
        for (auto first = segment.begin; first < segment.end; first += most) {
          memory_->kernels().convert(memory_->compute(), state + first * bytes_of(dtype), dtype, values, Dtype::fp32,
                                     std::min(most, segment.end - first));
        }
      }
    }
    memory_->compute().synchronize();
    if (memory_->disk() != nullptr && memory_->context().device->holds_values()) {
      begin_on_disk(k, {values, most});
    }
  }
}

/// All of a piece of memory are what elements of the state begin with.
void Optimizer::begin_on_disk(std::size_t state, std::span<float const> values) {
  auto& compute = memory_->compute();
  auto const dtype = memory_->request().precision.states;
  for (std::size_t i = 0; i < of_tiles_.size(); ++i) {
    auto const& tile = memory_->plan().disk.tiles[i];
    auto const begin = tile.elements.begin - memory_->in_memory_count(tile.flat);
    for (auto const& segment : of_tiles_[i]) {
      memory_->disk()->edit(tile.flat, 1 + state, {begin + segment.begin, begin + segment.end},
                            [&](std::byte* data, std::int64_t /*first*/, std::int64_t count) {
                              for (std::int64_t done = 0; done < count; done += std::ssize(values)) {
                                memory_->kernels().convert(compute, data + done * bytes_of(dtype), dtype, values.data(),
                                                           Dtype::fp32, std::min(std::ssize(values), count - done));
                              }
                              compute.synchronize();
                            });
    }
  }
}

void Optimizer::decide(optim::StepSums const& mine, std::span<optim::LossTerm const> losses,
                       optim::StepRules const& rules, std::size_t parity) {
  auto& kernels = memory_->kernels();
  device::SpanScope const span{*stream_, "decide", ""};
  results_->mine[parity] = mine;
  kernels.copy(*stream_, &step_->mine, &results_->mine[parity], sizeof(optim::StepSums));
  kernels.collect(*stream_, memory_->block_sums(), &step_->mine.sum_of_squares);
  for (auto const& loss : losses) {
    kernels.add_loss(*stream_, loss, &step_->mine);
  }
  auto const sums_count = optim::numbers_in_sums(metric_count_);
  comm_->all_reduce(*stream_, {"step", ""}, &step_->mine, &step_->total, sums_count, Dtype::fp64);
  sum_over_stages("step", step_->mine, step_->total);
  comm::Collective const sum{.operation = comm::Operation::all_reduce, .count = sums_count, .dtype = Dtype::fp64};
  memory_->note_call("decide", std::nullopt, {&sum, 1}, *comm_);
  kernels.advance(*stream_, rules, &step_->total, &step_->scalars);
  kernels.copy(*stream_, &results_->scalars[parity], &step_->scalars, sizeof(optim::StepScalars));
  kernels.copy(*stream_, &results_->totals[parity], &step_->total, sizeof(optim::StepSums));
  stream_->record(*decided_);
  last_decision_ = static_cast<int>(parity);
  last_decided_ = rules.loss_scale.dynamic ? static_cast<std::int64_t>(parity) : -1;
}

/// `total`, of the ranks of this stage, becomes that of all, but for the history: stages make calls of their own.
void Optimizer::sum_over_stages(std::string_view purpose, optim::StepSums& mine, optim::StepSums& total) {
  auto* const stages = memory_->context().stages;
  if (stages == nullptr) {
    return;
  }
  auto& kernels = memory_->kernels();
  kernels.copy(*stream_, &mine, &total, sizeof(optim::StepSums));
  stages->all_reduce(*stream_, {purpose, ""}, &mine, &total, optim::numbers_in_sums(metric_count_), Dtype::fp64);
  kernels.copy(*stream_, &total.history, &mine.history, sizeof(mine.history));
}

void Optimizer::await_decision() { memory_->compute().wait(*decided_); }

/// Of elements of `flat`, counted from the first that the optimizer holds, and of their states where memory has them.
optim::UpdateArgs Optimizer::arguments(FlatId flat, Range elements, std::vector<optim::Segment> const& segments) {
  auto const at = memory_->addresses(flat);
  auto const& precision = memory_->request().precision;
  auto const from_first = [&](std::byte* data, Dtype dtype) {
    return data == nullptr ? nullptr : data + elements.begin * bytes_of(dtype);
  };
  optim::UpdateArgs args;
  args.master = from_first(at.master, precision.master);
  args.master_dtype = precision.master;
  std::ranges::copy(at.states, args.states.begin());
  args.states_dtype = precision.states;
  args.gradient = from_first(at.reduced, at.reduced_dtype);
  args.gradient_dtype = at.reduced_dtype;
  args.parameter = from_first(at.updated_parameters, precision.compute);
  args.parameter_dtype = precision.compute;
  args.count = elements.count();
  args.segments = segments;
  args.update = &memory_->request().update;
  args.scalars = &step_->scalars;
  return args;
}

/// What the host's updates work on, each cut among its threads.
std::vector<HostTile> Optimizer::host_tiles() {
  std::vector<HostTile> all;
  auto const& request = memory_->request();
  bool const has_master = request.precision.has_master();
  for (auto const& [flat, elements] : memory_->plan().disk.tiles) {
    auto const of_tile = arguments(flat, elements, {});
    auto* const parameters = static_cast<std::byte*>(has_master ? of_tile.parameter : of_tile.master);
    auto const bytes = [count = of_tile.count](Dtype dtype) {
      return static_cast<std::size_t>(count * bytes_of(dtype));
    };
    HostTile tile{.unit = memory_->flat(flat).name,
                  .gradient = {static_cast<std::byte const*>(of_tile.gradient), bytes(of_tile.gradient_dtype)},
                  .parameters = {parameters, bytes(request.precision.compute)},
                  .takes_parameters = !has_master};
    auto const most = tile_count((elements.count() + request.offload.host_threads - 1) / request.offload.host_threads +
                                 tile_alignment_count - 1);
    for (auto first = elements.begin; first < elements.end; first += most) {
      Range const share{first, std::min(first + most, elements.end)};
      auto args = arguments(flat, share, {});
      auto const states = memory_->disk()->resident(flat, share.begin - memory_->in_memory_count(flat));
      args.master = states.front();
      std::copy(states.begin() + 1, states.end(), args.states.begin());
      tile.shares.push_back(args);
      tile.segments.push_back(segments_of(flat, share));
    }
    all.push_back(std::move(tile));
  }
  return all;
}

void Optimizer::update(FlatId flat) {
  if (before_update_) {
    before_update_(flat);
  }
  auto const& tiles = memory_->plan().disk.tiles;
  if (auto const count = memory_->in_memory_count(flat); count > 0 || tiles.empty()) {
    update(flat, {0, count}, arguments(flat, {0, count}, segments_[flat]));
  }
  if (memory_->plan().disk.host_tiles >= 0) {
    update_by_host(flat);
  }
  for (; next_tile_ < tiles.size() && tiles[next_tile_].flat == flat; ++next_tile_) {
    auto args = arguments(flat, tiles[next_tile_].elements, of_tiles_[next_tile_]);
    auto const states = memory_->disk()->acquire();
    if (memory_->request().precision.has_master()) {
      args.master = states[0];
    }
    std::copy(states.begin() + 1, states.end(), args.states.begin());
    update(flat, tiles[next_tile_].elements, args);
    memory_->disk()->release();
  }
  next_tile_ = next_tile_ == tiles.size() ? 0 : next_tile_;
  if (auto* const disk = memory_->disk_of(flat)) {
    disk->note_updated(flat);
    next_of_parameters_ = next_of_parameters_ == of_parameters_.size() ? 0 : next_of_parameters_;
  }
  memory_->compute().record(memory_->updated(flat));
  memory_->context().gather.all()->recorder().note("update", "step", memory_->flat(flat).name);
}

/// Of its tiles. The compute stream has waited for them then, as if it had updated them.
void Optimizer::update_by_host(FlatId flat) {
  auto const& tiles = memory_->plan().disk.tiles;
  auto& host = *memory_->disk()->host();
  auto const first = next_tile_;
  for (; next_tile_ < tiles.size() && tiles[next_tile_].flat == flat; ++next_tile_) {
    if (next_tile_ == 0) {
      host.begin(step_->scalars);
    }
    host.update(next_tile_);
  }
  if (next_tile_ > first) {
    host.end();
  }
}

/// Of elements whose states are where `args` says.
void Optimizer::update(FlatId flat, Range elements, optim::UpdateArgs const& args) {
  if (memory_->disk_of(flat) != nullptr) {
    return update_on_disk(flat, elements, args);
  }
  device::SpanScope const span{memory_->compute(), "update", memory_->flat(flat).name};
  memory_->kernels().update(memory_->compute(), args);
}

/// The parameters are on the disk. Where they are the masters, they have come from there; otherwise they are rounded
/// from the masters anew, skipped or not.
void Optimizer::update_on_disk(FlatId flat, Range elements, optim::UpdateArgs const& args) {
  auto& compute = memory_->compute();
  auto& kernels = memory_->kernels();
  auto& disk = *memory_->disk_of(flat);
  auto const& precision = memory_->request().precision;
  auto const& tiles = memory_->plan().parameters_disk.tiles;
  auto& next = next_of_parameters_;
  for (; next < tiles.size() && tiles[next].flat == flat && tiles[next].elements.begin < elements.end; ++next) {
    auto const first = tiles[next].elements.begin - elements.begin;
    auto const at = [&](auto* data, Dtype dtype) {
      return data == nullptr ? nullptr : bytes_at(data, first * bytes_of(dtype));
    };
    auto of_tile = args;
    of_tile.master = at(args.master, args.master_dtype);
    std::ranges::transform(args.states, of_tile.states.begin(),
                           [&](auto* state) { return at(state, args.states_dtype); });
    of_tile.gradient = at(args.gradient, args.gradient_dtype);
    of_tile.count = tiles[next].elements.count();
    of_tile.segments = of_parameters_[next];
    auto* const parameters = disk.acquire();
    of_tile.master = precision.has_master() ? of_tile.master : parameters;
    {
      device::SpanScope const span{compute, "update", memory_->flat(flat).name};
      kernels.update(compute, of_tile);
      if (precision.has_master()) {
        kernels.convert(compute, parameters, precision.compute, of_tile.master, precision.master, of_tile.count);
      }
    }
    disk.release();
  }
}

optim::StepSums Optimizer::sum_evaluation(optim::StepSums const& mine) { return sum("evaluation", {}, mine, {}); }

optim::StepSums Optimizer::sum_step(optim::StepSums const& mine, std::span<optim::LossTerm const> losses) {
  return sum("gradient_norm", memory_->block_sums(), mine, losses);
}

optim::StepSums Optimizer::sum(std::string_view purpose, std::span<float const> block_sums, optim::StepSums const& mine,
                               std::span<optim::LossTerm const> losses) {
  auto& kernels = memory_->kernels();
  results_->evaluation_mine = mine;
  kernels.copy(*stream_, &step_->evaluation_mine, &results_->evaluation_mine, sizeof(optim::StepSums));
  kernels.collect(*stream_, block_sums, &step_->evaluation_mine.sum_of_squares);
  for (auto const& loss : losses) {
    kernels.add_loss(*stream_, loss, &step_->evaluation_mine);
  }
  comm_->all_reduce(*stream_, {purpose, ""}, &step_->evaluation_mine, &step_->evaluation_total,
                    optim::numbers_in_sums(metric_count_), Dtype::fp64);
  sum_over_stages(purpose, step_->evaluation_mine, step_->evaluation_total);
  kernels.copy(*stream_, &results_->evaluation, &step_->evaluation_total, sizeof(optim::StepSums));
  stream_->synchronize();
  return results_->evaluation;
}

StepResults const& Optimizer::results() {
  decided_->synchronize();
  return *results_;
}

void Optimizer::restore(std::int64_t applied, optim::LossScaleState const& loss_scale) {
  stream_->synchronize();
  auto& scalars = results_->initial.scalars;
  scalars.applied = applied;
  scalars.loss_scale = loss_scale;
  memory_->kernels().copy(memory_->compute(), step_, &results_->initial, sizeof(StepMemory));
  memory_->compute().synchronize();
  last_decision_ = -1;
  last_decided_ = -1;
}

float Optimizer::loss_scale() {
  return last_decided_ < 0 ? results_->initial.scalars.loss_scale.scale
                           : results().scalars[static_cast<std::size_t>(last_decided_)].loss_scale.scale;
}

}  // namespace zeroth::shard
