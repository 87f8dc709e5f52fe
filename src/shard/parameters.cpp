// SPDX-License-Identifier: Apache-2.0
#include "shard/parameters.hpp"

#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::shard {

using comm::Operation;

Parameters::Parameters(Memory& memory)
    : memory_{&memory},
      stream_{memory.context().gather_stream},
      comm_{memory.context().gather.group},
      dtype_{memory.request().precision.compute},
      poison_{memory.request().poison},
      pool_{*memory.context().device, memory.request().parameter_slots, memory.parameter_slots(), bytes_of(dtype_)},
      gathers_done_{memory.context().device->make_event()} {
  if (memory.parameters_whole()) {
    for (auto const flat : memory.layout().flats().ids()) {
      whole_.push_back(slot_of_its_own(*memory.context().device, memory.addresses(flat).parameters, flat));
    }
  }
  transaction_.reserve(2);
}

Slot& Parameters::slot(FlatId flat) noexcept { return memory_->parameters_whole() ? whole_[flat] : *pool_.find(flat); }

bool Parameters::gathered(FlatId flat) noexcept {
  return memory_->parameters_whole() || empty(flat) || pool_.find(flat) != nullptr;
}

bool Parameters::gather(FlatId flat, std::string_view purpose) {
  Slot* const slot = pool_.bind(flat);
  if (slot == nullptr) {
    return false;
  }
  auto const& unit = memory_->flat(flat);
  stream_->wait(*slot->free);
  stream_->wait(memory_->updated(flat));
  if (poison_) {
    memory_->kernels().fill(*stream_, slot->data, pool_.slot_bytes(flat), 0xff);
  }
  transaction_.clear();
  std::byte const* source = memory_->addresses(flat).parameters;
  std::byte* destination = slot->data;
  for (auto const* part : {&unit.trainable, &unit.frozen}) {
    if (part->shard_count > 0) {
      transaction_.push_back({.operation = Operation::all_gather,
                              .input = source,
                              .output = destination,
                              .count = part->shard_count,
                              .dtype = dtype_});
      source += part->shard_count * bytes_of(dtype_);
      destination += part->padded_count * bytes_of(dtype_);
    }
  }
  {
    device::SpanScope const span{*stream_, "gather", unit.name};
    comm_->submit(*stream_, {purpose, unit.name}, transaction_);
  }
  stream_->record(*slot->ready);
  gathered_bytes_ += unit.padded_count() * bytes_of(dtype_);
  return true;
}

void Parameters::pin(FlatId flat) noexcept {
  if (!empty(flat)) {
    ++slot(flat).pins;
  }
}

void Parameters::await(FlatId flat, std::string_view purpose) {
  if (empty(flat)) {
    return;
  }
  comm_->recorder().note("wait", purpose, name(flat));
  auto& compute = memory_->compute();
  auto const& slot = this->slot(flat);
  compute.wait(*slot.ready);
  if (poison_) {
    memory_->kernels().copy(compute, memory_->addresses(flat).lent_parameters, slot.data,
                            memory_->flat(flat).padded_count() * bytes_of(dtype_));
  }
}

void Parameters::release(FlatId flat, std::string_view purpose) {
  if (empty(flat)) {
    return;
  }
  auto& slot = this->slot(flat);
  comm_->recorder().note("release", purpose, name(flat));
  if (--slot.pins == 0) {
    auto& compute = memory_->compute();
    if (poison_) {
      memory_->kernels().fill(compute, memory_->addresses(flat).lent_parameters,
                              memory_->flat(flat).padded_count() * bytes_of(dtype_), 0xff);
    }
    compute.record(*slot.free);
  }
}

std::byte const* Parameters::address(ParamId param) noexcept {
  auto const& location = memory_->layout().location(param);
  auto const* const data = poison_ ? memory_->addresses(location.flat).lent_parameters : slot(location.flat).data;
  return data + location.offset * bytes_of(dtype_);
}

void Parameters::publish(FlatId flat) {
  if (!memory_->parameters_whole() || memory_->optimizer_whole()) {
    return;
  }
  auto& slot = this->slot(flat);
  auto const& part = memory_->flat(flat).trainable;
  stream_->wait(memory_->updated(flat));
  auto const* const own = slot.data + part.slice(memory_->place()).begin * bytes_of(dtype_);
  transaction_.assign(1, {.operation = Operation::all_gather,
                          .input = own,
                          .output = slot.data,
                          .count = part.shard_count,
                          .dtype = dtype_});
  {
    device::SpanScope const span{*stream_, "publish", name(flat)};
    comm_->submit(*stream_, {"publish", name(flat)}, transaction_);
  }
  stream_->record(*slot.ready);
  gathered_bytes_ += part.padded_count * bytes_of(dtype_);
}

void Parameters::drop(Drop what) noexcept {
  auto const updated = [&](FlatId flat) { return memory_->flat(flat).trainable.padded_count > 0; };
  for (auto& slot : pool_.slots()) {
    if (slot.flat && (what == Drop::all || updated(*slot.flat))) {
      pool_.unbind(slot);
    }
  }
}

void Parameters::await_gathers() {
  stream_->record(*gathers_done_);
  memory_->compute().wait(*gathers_done_);
}

}  // namespace zeroth::shard
