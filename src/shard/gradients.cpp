// SPDX-License-Identifier: Apache-2.0
#include "shard/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/host_name.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {

using comm::Operation;

Gradients::Gradients(Memory& memory)
    : memory_{&memory},
      stream_{memory.context().reduce_stream},
      dtype_{memory.request().precision.gradient},
      sums_micro_steps_{memory.request().sums_micro_steps},
      poison_{memory.request().poison},
      folds_{memory.sums_apart() && memory.request().folds_into_sums},
      pool_{*memory.context().device, memory.request().gradient_slots, memory.gradient_slots(), bytes_of(dtype_)},
      replay_{*memory.context().device, memory.model().params.size(), memory.request().replays},
      written_{events_by_flat(memory.context())},
      accumulating_(memory.flat_count(), 0),
      summed_before_(memory.flat_count(), 0),
      reduced_before_(memory.flat_count(), 0),
      touched_(memory.model().params.size(), 0) {
  if (memory.gradients_whole()) {
    for (auto const flat : memory.layout().flats().ids()) {
      whole_.push_back(slot_of_its_own(*memory.context().device, memory.addresses(flat).gradient, flat));
    }
  }
  transaction_.reserve(memory.flat_count());
  whole_sums_.reserve(memory.flat_count());
  lent_.reserve(touched_.size());
}

Slot& Gradients::slot(FlatId flat) noexcept { return memory_->gradients_whole() ? whole_[flat] : *pool_.find(flat); }

void Gradients::fill(FlatId flat, Range range, std::uint8_t value) {
  memory_->kernels().fill(memory_->compute(), slot(flat).data + range.begin * bytes_of(dtype_),
                          range.count() * bytes_of(dtype_), value);
}

bool Gradients::begin(FlatId flat) {
  if (accumulating_[flat] != 0) {
    return true;
  }
  if (!memory_->gradients_whole() && pool_.bind(flat) == nullptr) {
    return false;
  }
  auto const& part = memory_->flat(flat).trainable;
  memory_->compute().wait(*slot(flat).free);
  if (poison_) {
    for (auto const& placed : part.params) {
      fill(flat, {placed.offset, placed.offset + placed.count}, 0xff);
    }
  }
  if (!memory_->gradients_whole()) {  // a slot held another unit; memory of its own keeps the zeros that it began with
    for (auto const& gap : part.padding) {
      fill(flat, gap, 0);
    }
  }
  accumulating_[flat] = 1;
  return true;
}

std::int64_t Gradients::offset_bytes(ParamId param) const noexcept {
  return memory_->layout().location(param).in_part * bytes_of(dtype_);
}

std::byte* Gradients::held(ParamId param) noexcept {
  return slot(memory_->layout().location(param).flat).data + offset_bytes(param);
}

std::byte* Gradients::lent(ParamId param) const noexcept {
  return memory_->addresses(memory_->layout().location(param).flat).lent_gradient + offset_bytes(param);
}

void Gradients::copy(ParamId param, std::byte* destination, std::byte const* source) {
  memory_->kernels().copy(memory_->compute(), destination, source,
                          memory_->model().params[param].count * bytes_of(dtype_));
}

Gradients::Target Gradients::contribute(ParamId param) {
  float const beta = touched_[param] != 0 ? 1.0F : 0.0F;
  touched_[param] = 1;
  if (!poison_) {
    return {held(param), beta};
  }
  if (std::ranges::find(lent_, param) == lent_.end()) {
    lent_.push_back(param);
    copy(param, lent(param), held(param));
  }
  return {lent(param), beta};
}

void Gradients::end_contributions(FlatId flat) {
  std::erase_if(lent_, [&](ParamId param) {
    if (memory_->layout().location(param).flat != flat) {
      return false;
    }
    copy(param, held(param), lent(param));
    memory_->kernels().fill(memory_->compute(), lent(param), memory_->model().params[param].count * bytes_of(dtype_),
                            0xff);
    return true;
  });
}

void Gradients::begin_pass(Run run, std::int64_t step) noexcept {
  replay_.begin_pass(run);
  step_ = step;
}

void Gradients::compare(FlatId flat) {
  for (auto const& placed : memory_->flat(flat).trainable.params) {
    auto const bytes = touched_[placed.param] != 0 ? placed.count * bytes_of(dtype_) : 0;
    if (!replay_.is_same(placed.param, {held(placed.param), static_cast<std::size_t>(bytes)})) {
      throw SystemError{fmt::format(
          "step {}: the first micro-step ran twice (zeroth.replay_every), and the gradient of parameter "
          "\"{}\" of unit \"{}\" differs: either the processor or the memory of {} is faulty, or the program does not "
          "compute the same twice from the same samples (random numbers that go on, atomic additions)",
          step_, memory_->model().params[placed.param].name, name(flat), host_name())};
    }
  }
}

void Gradients::end(FlatId flat, bool reduce_next) {
  if (replay_.run() != Run::once) {
    compare(flat);
  }
  if (replay_.run() == Run::first_of_two) {
    for (auto const& placed : memory_->flat(flat).trainable.params) {
      touched_[placed.param] = 0;
    }
    return give_up(flat);
  }
  if (reduce_next || sums_micro_steps_) {
    for (auto const& placed : memory_->flat(flat).trainable.params) {
      if (touched_[placed.param] == 0) {
        fill(flat, {placed.offset, placed.offset + placed.count}, 0);
      }
      touched_[placed.param] = 0;
    }
  }
  memory_->compute().record(*written_[flat]);
  if (sums_micro_steps_) {
    add_up(flat, reduce_next);
  }
}

void Gradients::add_up(FlatId flat, bool last) {
  stream_->wait(*written_[flat]);
  device::ReduceEpilogue epilogue;
  epilogue.source = slot(flat).data;
  epilogue.source_dtype = dtype_;
  epilogue.destination = memory_->addresses(flat).sums;
  epilogue.destination_dtype = Dtype::fp32;
  epilogue.count = memory_->flat(flat).trainable.padded_count;
  epilogue.accumulate = summed_before_[flat] != 0;
  {
    device::SpanScope const span{*stream_, "add up", name(flat)};
    memory_->kernels().reduce_epilogue(*stream_, epilogue);
  }
  give_up(flat);
  summed_before_[flat] = last ? 0 : 1;
}

void Gradients::give_up(FlatId flat) {
  auto& slot = this->slot(flat);
  stream_->record(*slot.free);
  if (!memory_->gradients_whole()) {
    pool_.unbind(slot);
  }
  accumulating_[flat] = 0;
}

std::pair<std::byte*, Dtype> Gradients::unreduced(FlatId flat) noexcept {
  return sums_micro_steps_ ? std::pair{memory_->addresses(flat).sums, Dtype::fp32} : std::pair{slot(flat).data, dtype_};
}

std::byte* Gradients::converted(FlatId flat, std::byte*& free) {
  auto const dtype = memory_->request().precision.reduce;
  auto const [data, held_dtype] = unreduced(flat);
  if (held_dtype == dtype) {
    return data;
  }
  auto const count = memory_->flat(flat).trainable.padded_count;
  memory_->kernels().convert(*stream_, free, dtype, data, held_dtype, count);
  return std::exchange(free, free + count * bytes_of(dtype));
}

void Gradients::reduce(std::span<FlatId const> flats, bool last) {
  for (auto const flat : flats) {
    stream_->wait(*written_[flat]);
  }
  device::SpanScope const span{*stream_, "reduce", name(flats.front())};
  whole_sums_.clear();
  std::byte* conversion = memory_->conversion();
  for (auto const flat : flats) {
    whole_sums_.push_back(converted(flat, conversion));
  }
  if (folds_) {
    fold(flats, whole_sums_);
  } else {
    sum(flats, whole_sums_);
  }
  for (std::size_t i = 0; i < flats.size(); ++i) {
    if (!folds_) {
      take_over(flats[i], whole_sums_[i], last);
    } else if (last) {
      square(flats[i]);
    }
  }
  if (last) {
    share(flats);
  }
  for (auto const flat : flats) {
    if (!sums_micro_steps_) {  // otherwise it was given up before
      give_up(flat);
    }
    reduced_before_[flat] = last ? 0 : 1;
  }
}

/// Over all ranks, in place. What is left where it is in `whole` is this rank's slice, or, by one sum for an optimizer
/// that holds everything, everything.
void Gradients::sum(std::span<FlatId const> flats, std::span<std::byte* const> whole) {
  auto const dtype = memory_->request().precision.reduce;
  auto const& ranks = memory_->context().reduce;
  // Leaves `to` of what is held as `from`.
  auto const scatter = [&](Placement from, Placement to) {
    transaction_.clear();
    for (std::size_t i = 0; i < flats.size(); ++i) {
      auto const& part = memory_->flat(flats[i]).trainable;
      auto const left = memory_->held(part, to);
      transaction_.push_back({.operation = Operation::reduce_scatter,
                              .input = whole[i] + memory_->held(part, from).begin * bytes_of(dtype),
                              .output = whole[i] + left.begin * bytes_of(dtype),
                              .count = left.count(),
                              .dtype = dtype});
    }
    submit("backward", flats, ranks.between(to, from));
  };
  if (memory_->request().sums_by_groups) {
    scatter(Placement::whole, Placement::group);
    scatter(Placement::group, Placement::shard);
  } else if (!memory_->optimizer_whole()) {
    scatter(Placement::whole, Placement::shard);
  } else {
    transaction_.clear();
    for (std::size_t i = 0; i < flats.size(); ++i) {
      transaction_.push_back({.operation = Operation::all_reduce,
                              .input = whole[i],
                              .output = whole[i],
                              .count = memory_->flat(flats[i]).trainable.padded_count,
                              .dtype = dtype});
    }
    submit("backward", flats, *ranks.all);
  }
}

/// Adds each rank's gradients, one rank after another, to the sum of this rank's slice: micro-steps are added up in the
/// order that they have in the global batch, on any number of ranks.
void Gradients::fold(std::span<FlatId const> flats, std::span<std::byte* const> whole) {
  transaction_.clear();
  for (std::size_t i = 0; i < flats.size(); ++i) {
    auto const& part = memory_->flat(flats[i]).trainable;
    transaction_.push_back({.operation = Operation::reduce_scatter,
                            .input = whole[i],
                            .count = part.shard_count,
                            .dtype = memory_->request().precision.reduce,
                            .sums = own_sums(flats[i]),
                            .accumulate = reduced_before_[flats[i]] != 0});
  }
  submit("backward", flats, *memory_->context().reduce.all);
}

/// Where this rank's slice is among what the optimizer will read.
float* Gradients::own_sums(FlatId flat) const {
  auto const slice = memory_->flat(flat).trainable.slice(memory_->place());
  return reinterpret_cast<float*>(memory_->addresses(flat).reduced) + slice.begin - memory_->optimized(flat).begin;
}

void Gradients::square(FlatId flat) {
  auto const count = memory_->flat(flat).trainable.shard_count;
  auto* const sums = own_sums(flat);
  memory_->kernels().reduce_epilogue(*stream_, {.source = sums,
                                                .source_dtype = Dtype::fp32,
                                                .destination = sums,
                                                .destination_dtype = Dtype::fp32,
                                                .count = count,
                                                .block_sums = memory_->addresses(flat).block_sums,
                                                .sums_count = count});
}

void Gradients::submit(std::string_view purpose, std::span<FlatId const> flats, comm::Communicator& communicator) {
  communicator.submit(*stream_, {purpose, name(flats.front())}, transaction_);
  memory_->note_call("reduce", flats.front(), transaction_, communicator);
  for (auto const& each : transaction_) {
    auto const ranks = each.operation == Operation::all_reduce ? 1 : communicator.world();
    reduced_bytes_.add(ranks * each.count * bytes_of(each.dtype), communicator, memory_->context().reduce);
  }
}

/// Where the optimizer of this rank holds more than what sums leave it, it gets the rest from those that have it.
void Gradients::share(std::span<FlatId const> flats) {
  auto const& ranks = memory_->context().reduce;
  auto const gather = [&](Placement from, Placement to) {
    transaction_.clear();
    for (auto const flat : flats) {
      auto const& part = memory_->flat(flat).trainable;
      auto const at = memory_->addresses(flat);
      auto const address = [&](Range const& range) {
        return at.reduced + (range.begin - memory_->optimized(flat).begin) * bytes_of(at.reduced_dtype);
      };
      auto const own = memory_->held(part, from);
      transaction_.push_back({.operation = Operation::all_gather,
                              .input = address(own),
                              .output = address(memory_->held(part, to)),
                              .count = own.count(),
                              .dtype = at.reduced_dtype});
    }
    submit("share", flats, ranks.between(from, to));
  };
  auto const optimizer = memory_->request().placements.optimizer;
  if (optimizer == Placement::group) {
    gather(Placement::shard, Placement::group);
  } else if (optimizer == Placement::whole && memory_->request().sums_by_groups) {
    gather(Placement::shard, Placement::group);
    gather(Placement::group, Placement::whole);
  } else if (optimizer == Placement::whole && folds_) {
    gather(Placement::shard, Placement::whole);
  }
}

/// Adds what sums left of this rank to what the optimizer will read.
void Gradients::take_over(FlatId flat, std::byte* whole, bool last) {
  auto const& part = memory_->flat(flat).trainable;
  auto const at = memory_->addresses(flat);
  auto const reduced_dtype = memory_->request().precision.reduce;
  auto const slice = part.slice(memory_->place());
  bool const summed_whole = memory_->optimizer_whole() && !memory_->request().sums_by_groups;
  auto const summed = summed_whole ? Range{0, part.padded_count} : slice;
  device::ReduceEpilogue epilogue;
  epilogue.source = whole + summed.begin * bytes_of(reduced_dtype);
  epilogue.source_dtype = reduced_dtype;
  epilogue.destination = at.reduced + (summed.begin - memory_->optimized(flat).begin) * bytes_of(at.reduced_dtype);
  epilogue.destination_dtype = at.reduced_dtype;
  epilogue.count = summed.count();
  epilogue.accumulate = reduced_before_[flat] != 0;
  if (last) {
    epilogue.block_sums = at.block_sums;
    epilogue.sums_begin = slice.begin - summed.begin;
    epilogue.sums_count = part.shard_count;
  }
  memory_->kernels().reduce_epilogue(*stream_, epilogue);
}

}  // namespace zeroth::shard
