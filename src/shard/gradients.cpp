// SPDX-License-Identifier: Apache-2.0
#include "shard/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <variant>

#include "core/host_name.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {
namespace {

std::int64_t freeze_step_of(Settings const& settings) noexcept {
  auto const* const rule = std::get_if<optim::OneBitAdam>(&settings.update.rule);
  return rule == nullptr ? std::numeric_limits<std::int64_t>::max() : rule->freeze_step;
}

}  // namespace

Gradients::Gradients(Memory& memory)
    : memory_{&memory},
      stream_{memory.context().reduce_stream},
      sums_micro_steps_{memory.request().settings.sums_micro_steps},
      poison_{memory.request().settings.poison},
      pool_{*memory.context().device, memory.request().gradient_slots, memory.gradient_slots(),
            bytes_of(memory.request().settings.precision.gradient)},
      reducer_{make_reducer(memory)},
      replay_{*memory.context().device, memory.layout().gradient_count(), memory.request().settings.replay_every > 0},
      freeze_step_{freeze_step_of(memory.request().settings)},
      written_{events_by_flat(memory.context())},
      accumulating_(memory.flat_count(), 0),
      summed_before_(memory.flat_count(), 0),
      touched_(memory.layout().gradient_count(), 0),
      tied_sums_{memory} {
  if (memory.gradients_whole()) {
    for (auto const flat : memory.layout().flats().ids()) {
      whole_.push_back(slot_of_its_own(*memory.context().device, memory.addresses(flat).gradient, flat));
    }
  }
  unreduced_.reserve(memory.flat_count());
  lent_.reserve(touched_.size());
}

Slot& Gradients::slot(FlatId flat) noexcept { return memory_->gradients_whole() ? whole_[flat] : *pool_.find(flat); }

void Gradients::fill(FlatId flat, Range range, std::uint8_t value) {
  auto const bytes = bytes_of(dtype(flat));
  memory_->kernels().fill(memory_->compute(), slot(flat).data + range.begin * bytes, range.count() * bytes, value);
}

bool Gradients::begin(FlatId flat) {
  if (accumulating_[flat] != 0) {
    return true;
  }
  if (!memory_->gradients_whole() && pool_.bind(flat) == nullptr) {
    return false;
  }
  auto const& part = memory_->flat(flat).gradients();
  memory_->compute().wait(*slot(flat).free);
  if (poison_) {
    for (auto const& placed : part.params) {
      fill(flat, {placed.offset, placed.offset + placed.count}, 0xff);
    }
  }
  if (!memory_->gradients_whole()) {  // a slot has contents of another unit; separate memory keeps its initial zeros
    for (auto const& gap : part.padding) {
      fill(flat, gap, 0);
    }
  }
  accumulating_[flat] = 1;
  return true;
}

std::byte* Gradients::held(FlatId flat, std::int64_t in_part) noexcept {
  return slot(flat).data + in_part * bytes_of(dtype(flat));
}

std::byte* Gradients::lent(GradientLocation const& at) const noexcept {
  return memory_->addresses(at.flat).lent_gradient + at.in_part * bytes_of(dtype(at.flat));
}

void Gradients::copy(Lent const& lent, std::byte* destination, std::byte const* source) {
  memory_->kernels().copy(memory_->compute(), destination, source, lent.bytes);
}

Gradients::Target Gradients::contribute(UnitId unit, ParamId param) {
  auto const at = memory_->layout().gradient(unit, param);
  float const beta = touched_[at.gradient] != 0 ? 1.0F : 0.0F;
  touched_[at.gradient] = 1;
  if (!poison_) {
    return {held(at.flat, at.in_part), beta};
  }
  auto const is = [&](Lent const& lent) { return lent.at.gradient == at.gradient; };
  if (std::ranges::none_of(lent_, is)) {
    lent_.push_back({at, memory_->model().params[param].count * bytes_of(dtype(at.flat))});
    copy(lent_.back(), lent(at), held(at.flat, at.in_part));
  }
  return {lent(at), beta};
}

void Gradients::end_contributions(FlatId flat) {
  std::erase_if(lent_, [&](Lent const& each) {
    if (each.at.flat != flat) {
      return false;
    }
    copy(each, held(flat, each.at.in_part), lent(each.at));
    memory_->kernels().fill(memory_->compute(), lent(each.at), each.bytes, 0xff);
    return true;
  });
}

void Gradients::begin_pass(Run run, std::int64_t step) noexcept {
  replay_.begin_pass(run);
  step_ = step;
  reducer_->set_frozen(frozen());
}

void Gradients::compare(FlatId flat) {
  for (auto const& placed : memory_->flat(flat).gradients().params) {
    auto const bytes = touched_[placed.gradient] != 0 ? placed.count * bytes_of(dtype(flat)) : 0;
    if (!replay_.is_same(placed.gradient, {held(flat, placed.offset), static_cast<std::size_t>(bytes)})) {
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
    for (auto const& placed : memory_->flat(flat).gradients().params) {
      touched_[placed.gradient] = 0;
    }
    return give_up(flat);
  }
  if (reduce_next || sums_micro_steps_) {
    for (auto const& placed : memory_->flat(flat).gradients().params) {
      if (touched_[placed.gradient] == 0) {
        fill(flat, {placed.offset, placed.offset + placed.count}, 0);
      } else {
        clear_padding(flat, placed);
      }
      touched_[placed.gradient] = 0;
    }
  }
  memory_->compute().record(*written_[flat]);
  if (sums_micro_steps_) {
    add_up(flat, reduce_next);
  }
}

/// Zeroes the padding of a parameter part that is cut among tensor ranks: it does not belong to the norm.
void Gradients::clear_padding(FlatId flat, Placed const& placed) {
  auto const& part = memory_->model().params[placed.param].part;
  if (!part || !part->has_padding()) {
    return;
  }
  part->each_run(0, placed.count, [&](model::CutPart::Run const& run) {
    if (run.is_padding()) {
      fill(flat, {placed.offset + run.first, placed.offset + run.first + run.count}, 0);
    }
  });
}

void Gradients::add_up(FlatId flat, bool last) {
  stream_->wait(*written_[flat]);
  device::ReduceEpilogue epilogue;
  epilogue.source = slot(flat).data;
  epilogue.source_dtype = dtype(flat);
  epilogue.destination = memory_->addresses(flat).sums;
  epilogue.destination_dtype = Dtype::fp32;
  epilogue.count = memory_->flat(flat).gradients().padded_count;
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

void Gradients::reduce(std::span<FlatId const> flats, bool last) {
  for (auto const flat : flats) {
    stream_->wait(*written_[flat]);
  }
  device::SpanScope const span{*stream_, "reduce", name(flats.front())};
  unreduced_.clear();
  for (auto const flat : flats) {
    unreduced_.push_back(sums_micro_steps_ ? Unreduced{flat, memory_->addresses(flat).sums, Dtype::fp32}
                                           : Unreduced{flat, slot(flat).data, dtype(flat)});
  }
  reducer_->reduce(unreduced_, last);
  if (last && memory_->request().settings.delayed_update) {
    std::ranges::for_each(flats, [this](FlatId flat) { delay(flat); });
  }
  if (!sums_micro_steps_) {  // otherwise they were released before
    std::ranges::for_each(flats, [this](FlatId flat) { give_up(flat); });
  }
  reduced_last_ += last ? flats.size() : 0;
}

/// Copies the sums to memory that this step's update will read, once the previous step's update has read it.
void Gradients::delay(FlatId flat) {
  auto const at = memory_->addresses(flat);
  stream_->wait(memory_->updated(flat));
  memory_->kernels().copy(*stream_, at.delayed, at.reduced, memory_->summed(flat).count() * bytes_of(at.reduced_dtype));
}

void Gradients::end_passes() {
  if (reduced_last_ == memory_->layout().completion_order().size()) {
    reduced_last_ = 0;
    tied_sums_.run();
  }
}

}  // namespace zeroth::shard
