// SPDX-License-Identifier: Apache-2.0
#include "shard/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <type_traits>

#include "core/bytes_at.hpp"
#include "shard/held_state.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {
namespace {

static_assert(sizeof(optim::StepSums) % sizeof(double) == 0);
static_assert(std::is_trivially_copyable_v<StepMemory>);  // it starts as a copy of the host's

/// Moves the start of `args` by `elements`.
void advance(optim::UpdateArgs& args, std::int64_t elements) noexcept {
  if (elements == 0) {
    return;
  }
  auto const advance_array = [elements](auto*& data, Dtype dtype) {
    data = data == nullptr ? nullptr : bytes_at(data, elements * bytes_of(dtype));
  };
  advance_array(args.master, args.master_dtype);
  std::ranges::for_each(args.states, [&](void*& state) { advance_array(state, args.states_dtype); });
  args.average = args.average == nullptr ? nullptr : args.average + elements;
  advance_array(args.gradient, args.gradient_dtype);
  advance_array(args.parameter, args.parameter_dtype);
}

}  // namespace

Optimizer::Optimizer(Memory& memory, optim::LossScaleState const& loss_scale)
    : memory_{&memory},
      stream_{memory.context().reduce_stream},
      comm_{memory.context().deciders != nullptr ? memory.context().deciders : memory.context().reduce.all()},
      step_{memory.step()},
      host_{memory.context().device->allocate_host(sizeof(StepResults))},
      results_{::new (host_->data()) StepResults{}},
      in_memory_{*memory.context().device, memory.update_stream()},
      decided_{memory.context().device->make_event()} {
  auto const& settings = memory.request().settings;
  expect_runs(settings.update.rule);
  if (settings.matrix_update) {
    expect_runs(settings.matrix_update->rule);
  }
  if (has_directions(settings)) {
    matrices_.emplace(memory);
  }
  if (has_trust_ratios(settings)) {
    norms_.emplace(memory);
  }
  if (encodes_momenta(settings)) {
    momenta_.emplace(memory);
    before_freeze_ = settings.update;
    before_freeze_.rule = std::get<optim::OneBitAdam>(settings.update.rule).adam;
  }
  cut_stretches();
  begin_states();
  results_->initial.scalars.loss_scale = loss_scale;
  memory.kernels().copy(memory.compute(), step_, &results_->initial, sizeof(StepMemory));
  memory.compute().synchronize();
}

void Optimizer::expect_runs(optim::Rule const& rule) const {
  ZEROTH_EXPECTS(memory_->kernels().runs(rule),
                 fmt::format("the rule \"{}\" is the program's own, which {} does not run: it is for CPUs",
                             optim::name_of(rule), memory_->context().device->name()));
}

/// Cuts stretches in the order of updates.
void Optimizer::cut_stretches() {
  auto const& plan = memory_->plan();
  std::size_t next = 0, next_of_parameters = 0;
  stretches_ = ById<FlatId, std::vector<Stretch>>(memory_->flat_count());
  auto const add = [&](FlatId flat, Range elements, StateHome& states) {
    Stretch stretch{elements, &states, {}};
    auto const add_piece = [&](Range const& piece) {
      stretch.pieces.push_back({piece.begin - elements.begin, piece.count(), memory_->segments_of(flat, piece)});
    };
    auto const& tiles = plan.parameters_disk.tiles;
    if (plan.flats[flat].parameters_on_disk < 0) {
      add_piece(elements);
    }
    for (; next_of_parameters < tiles.size() && tiles[next_of_parameters].flat == flat &&
           tiles[next_of_parameters].elements.begin < elements.end;
         ++next_of_parameters) {
      add_piece(tiles[next_of_parameters].elements);
    }
    stretches_[flat].push_back(std::move(stretch));
  };
  auto const& tiles = plan.disk.tiles;
  for (auto const flat : memory_->layout().update_order()) {
    if (auto const count = memory_->in_memory_count(flat); count > 0 || tiles.empty()) {
      add(flat, {0, count}, in_memory_);
    }
    for (; next < tiles.size() && tiles[next].flat == flat; ++next) {
      add(flat, tiles[next].elements, *memory_->offloaded_states());
    }
  }
}

void Optimizer::follow_factors() {
  memory_->update_stream().synchronize();  // updates under way read segments
  cut_stretches();
  if (auto* const offloaded = memory_->offloaded_states()) {
    offloaded->follow_factors(*memory_);
  }
}

/// Memory is allocated as zeros, which padding keeps, and a disk has zeros too.
void Optimizer::begin_states() {
  constexpr std::int64_t most = 1 << 16;
  auto const begins_at_zero = [&](FlatId flat) {
    return std::ranges::all_of(optim::states_of(memory_->update_of(flat).rule),
                               [](auto const& state) { return state.initial == 0; });
  };
  if (std::ranges::all_of(memory_->layout().flats().ids(), begins_at_zero)) {
    return;
  }
  auto& kernels = memory_->kernels();
  auto& compute = memory_->compute();
  auto const piece = memory_->context().device->allocate_host(most * bytes_of(Dtype::fp32));
  auto* const values = reinterpret_cast<float*>(piece->data());
  for (auto const flat : memory_->layout().flats().ids()) {
    auto const dtype = memory_->precision(flat).states;
    auto const fill = [&](std::byte* data, std::int64_t /*first*/, std::int64_t count) {
      for (std::int64_t done = 0; done < count; done += most) {
        kernels.convert(compute, data + done * bytes_of(dtype), dtype, values, Dtype::fp32,
                        std::min(most, count - done));
      }
    };
    auto const states = optim::states_of(memory_->update_of(flat).rule);
    for (std::size_t k = 0; k < states.size(); ++k) {
      if (states[k].initial == 0) {
        continue;
      }
      std::fill_n(values, most, states[k].initial);
      auto const held = held_of_updated(*memory_, flat, 1 + k);
      for (auto const& segment : memory_->segments_of(flat, {0, memory_->optimized(flat).count()})) {
        held.edit({segment.begin, segment.end}, fill);
      }
      compute.synchronize();
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
  conclude(rules, parity);
}

void Optimizer::decide_by(optim::StepSums const& total, optim::StepRules const& rules, std::size_t parity) {
  results_->mine[parity] = total;
  memory_->kernels().copy(*stream_, &step_->total, &results_->mine[parity], sizeof(optim::StepSums));
  conclude(rules, parity);
}

/// Computes the step's scalars from its sums.
void Optimizer::conclude(optim::StepRules const& rules, std::size_t parity) {
  auto& kernels = memory_->kernels();
  kernels.advance(*stream_, rules, &step_->total, &step_->scalars);
  kernels.copy(*stream_, &results_->scalars[parity], &step_->scalars, sizeof(optim::StepScalars));
  kernels.copy(*stream_, &results_->totals[parity], &step_->total, sizeof(optim::StepSums));
  stream_->record(*decided_);
  note_decision(rules, parity);
}

void Optimizer::prepare_launch(optim::StepSums const& mine, optim::StepRules const& rules, std::size_t parity) {
  results_->mine[parity] = mine;
  note_decision(rules, parity);
}

void Optimizer::note_decision(optim::StepRules const& rules, std::size_t parity) noexcept {
  last_decision_ = static_cast<int>(parity);
  auto const before = std::exchange(last_decided_, rules.loss_scale.dynamic ? static_cast<std::int64_t>(parity) : -1);
  scale_decided_ = memory_->request().settings.delayed_update ? before : last_decided_;
}

/// Sums `total` of this stage's ranks over all stages, except its history, since stages make different calls.
void Optimizer::sum_over_stages(std::string_view purpose, optim::StepSums& mine, optim::StepSums& total) {
  auto* const stages = memory_->context().stages;
  if (stages == nullptr) {
    return;
  }
  auto& kernels = memory_->kernels();
  kernels.copy(*stream_, &mine, &total, sizeof(optim::StepSums));
  stages->all_reduce(*stream_, {purpose, ""}, &mine, &total, optim::numbers_in_sums(metric_count_), Dtype::fp64);
  kernels.copy(*stream_, &total.call_hash, &mine.call_hash, sizeof(mine.call_hash));
}

void Optimizer::await_decision() { memory_->update_stream().wait(*decided_); }

void Optimizer::begin_updates(bool frozen) {
  frozen_ = frozen;
  auto const compute = [this](auto& first_part) {
    if (!first_part) {
      return;
    }
    if (before_update_) {
      std::ranges::for_each(first_part->flats(), before_update_);
    }
    first_part->compute();
  };
  compute(matrices_);
  compute(norms_);
}

/// States and parameters come from their homes and return there.
void Optimizer::update(FlatId flat) {
  if (before_update_) {
    before_update_(flat);
  }
  auto& parameters = memory_->home_of_parameters(flat);
  bool const by_matrices = matrices_ && memory_->flat(flat).matrices;
  if (by_matrices) {
    matrices_->await(flat);
  }
  for (auto const& [elements, states, pieces] : stretches_[flat]) {
    auto args = memory_->update_args(flat, elements);
    if (by_matrices) {
      matrices_->direct(flat, elements, args);
    }
    if (momenta_ && frozen_) {
      momenta_->exchange(flat, args);
    } else if (momenta_) {
      args.update = &before_freeze_;
    }
    states->acquire(args);
    for (auto const& [before, count, segments] : pieces) {
      auto of_piece = args;
      advance(of_piece, before);
      of_piece.count = count;
      of_piece.segments = segments;
      parameters.acquire(of_piece);
      {
        device::SpanScope const span{states->stream(), "update", memory_->flat(flat).name};
        states->update(of_piece);
        parameters.round(of_piece);
      }
      parameters.release();
    }
    states->release();
  }
  quantise(flat);
  parameters.note_updated(flat);
  memory_->update_stream().record(memory_->updated(flat));
  memory_->context().gather.all()->recorder().note("update", "step", memory_->flat(flat).name);
}

/// Once the parameters of all pieces are in memory. Those on a disk were rounded piece by piece.
void Optimizer::quantise(FlatId flat) {
  auto* const updated = memory_->addresses(flat).updated_parameters;
  if (gather_codec_of(memory_->flat(flat), memory_->request().settings) != Codec::none && updated != nullptr) {
    memory_->kernels().quantise(
        memory_->update_stream(),
        {.values = updated, .dtype = memory_->precision(flat).compute, .count = memory_->optimized(flat).count()});
  }
}

optim::StepSums Optimizer::sum_evaluation(optim::StepSums const& mine) {
  return sum("evaluation", *memory_->context().reduce.all(), {}, mine, {});
}

optim::StepSums Optimizer::sum_step(optim::StepSums const& mine, std::span<optim::LossTerm const> losses) {
  return sum("gradient_norm", *comm_, memory_->block_sums(), mine, losses);
}

optim::StepSums Optimizer::sum(std::string_view purpose, comm::Communicator& over, std::span<float const> block_sums,
                               optim::StepSums const& mine, std::span<optim::LossTerm const> losses) {
  auto& kernels = memory_->kernels();
  results_->evaluation_mine = mine;
  kernels.copy(*stream_, &step_->evaluation_mine, &results_->evaluation_mine, sizeof(optim::StepSums));
  kernels.collect(*stream_, block_sums, &step_->evaluation_mine.sum_of_squares);
  for (auto const& loss : losses) {
    kernels.add_loss(*stream_, loss, &step_->evaluation_mine);
  }
  over.all_reduce(*stream_, {purpose, ""}, &step_->evaluation_mine, &step_->evaluation_total,
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
  scale_decided_ = -1;
}

float Optimizer::loss_scale() {
  if (scale_decided_ < 0) {
    return results_->initial.scalars.loss_scale.scale;
  }
  auto const& decided = scale_decided_ == last_decided_ ? results() : *results_;  // the host has read earlier ones
  return decided.scalars[static_cast<std::size_t>(scale_decided_)].loss_scale.scale;
}

}  // namespace zeroth::shard
