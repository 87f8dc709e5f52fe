// SPDX-License-Identifier: Apache-2.0
#include "shard/parameters.hpp"

#include <algorithm>

#include "shard/server_links.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::shard {

Parameters::Parameters(Memory& memory)
    : memory_{&memory},
      stream_{memory.context().gather_stream},
      recorder_{&memory.gathers().recorder()},
      poison_{memory.request().settings.poison},
      pool_{*memory.context().device, memory.request().parameter_slots, memory.parameter_slots(),
            bytes_of(memory.request().settings.precision.compute)},
      gathers_done_{memory.context().device->make_event()},
      carrier_{memory},
      gatherer_{make_gatherer(memory)} {
  for (auto const flat : memory.layout().flats().ids()) {
    whole_.push_back(memory.parameters_whole(flat)
                         ? slot_of_its_own(*memory.context().device, memory.addresses(flat).parameters, flat)
                         : Slot{});
  }
  if (publishes_to_replicas()) {
    published_ = events_by_flat(memory.context());
    memory.home_of_parameters().set_publish(
        [this](Tile const& tile, std::byte* slices, std::int64_t bytes_of_each, device::Event& updated,
               device::Event& published) { publish_tile(tile, slices, bytes_of_each, updated, published); });
  }
  trips_.reserve(memory.flat_count());
}

Slot& Parameters::slot(FlatId flat) noexcept {
  return memory_->parameters_whole(flat) ? whole_[flat] : *pool_.find(flat);
}

bool Parameters::gathered(FlatId flat) noexcept {
  return memory_->parameters_whole(flat) || empty(flat) || pool_.find(flat) != nullptr;
}

bool Parameters::gather(FlatId flat, std::string_view purpose) {
  Slot* const slot = pool_.bind(flat);
  if (slot == nullptr) {
    return false;
  }
  stream_->wait(*slot->free);
  stream_->wait(memory_->updated(flat));
  if (!published_.empty()) {
    stream_->wait(*published_[flat]);
  }
  if (poison_) {
    memory_->kernels().fill(*stream_, slot->data, pool_.slot_bytes(flat), 0xff);
  }
  gatherer_->gather(flat, purpose, slot->data);
  stream_->record(*slot->ready);
  return true;
}

void Parameters::read_ahead(FlatId flat) {
  if (!gathered(flat)) {
    memory_->home_of_parameters(flat).read_ahead(flat);
  }
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
  recorder_->note("wait", purpose, name(flat));
  auto& compute = memory_->compute();
  auto const& slot = this->slot(flat);
  memory_->home_of_parameters(flat).await(flat);  // so that waits for a disk do not count as communication
  compute.wait(*slot.ready);
  if (poison_) {
    memory_->kernels().copy(compute, memory_->addresses(flat).lent_parameters, slot.data,
                            memory_->flat(flat).padded_count() * element_bytes(flat));
  }
}

void Parameters::release(FlatId flat, std::string_view purpose) {
  if (empty(flat)) {
    return;
  }
  auto& slot = this->slot(flat);
  recorder_->note("release", purpose, name(flat));
  if (--slot.pins == 0) {
    auto& compute = memory_->compute();
    if (poison_) {
      memory_->kernels().fill(compute, memory_->addresses(flat).lent_parameters,
                              memory_->flat(flat).padded_count() * element_bytes(flat), 0xff);
    }
    compute.record(*slot.free);
  }
}

void Parameters::await_uses(FlatId flat) {
  if (!empty(flat)) {
    memory_->update_stream().wait(*slot(flat).free);
  }
}

std::byte const* Parameters::address(ParamId param) noexcept {
  auto const& location = memory_->layout().location(param);
  auto const* const data = poison_ ? memory_->addresses(location.flat).lent_parameters : slot(location.flat).data;
  return data + location.offset * element_bytes(location.flat);
}

Parameters::EncodedBytes Parameters::encoded_bytes(Layout const& layout, PlanRequest const& request) {
  auto const codec = request.settings.gather_codec;
  auto const dtype = request.settings.precision.compute;
  if (codec == Codec::none) {
    return {};
  }
  auto const of = [&](Route const& route) {
    std::int64_t most = 0;
    for (auto const& hop : route.hops) {
      most = std::max(most, zeroth::encoded_bytes(codec, dtype, hop.to.count()));
    }
    return most;
  };
  EncodedBytes bytes;
  std::int64_t persistent = 0, all = 0, largest = 0;  // of publishes; those among replicas run in batches
  for (auto const& flat : layout.flats()) {
    if (flat.fp32) {
      continue;
    }
    auto const routes = routes_of(flat, request, 0);
    auto const of_publish = of(routes.publish);
    bytes.gather = std::max(bytes.gather, of(routes.gather));
    if (routes.publish.lane == Lane::reduce) {
      all += of_publish;
      largest = std::max(largest, of_publish);
    } else if (flat.persistent) {
      persistent += of_publish;
    } else {
      bytes.gather = std::max(bytes.gather, of_publish);
    }
  }
  auto const bucket = zeroth::encoded_bytes(codec, dtype, tile_count(request.settings.reduce_bucket_count));
  bytes.gather = std::max(bytes.gather, persistent);
  bytes.reduce = std::min(all, std::max(bucket, largest));
  return bytes;
}

bool Parameters::publishes_to_replicas() const noexcept {
  auto const& [parameters, gradients, optimizer] = memory_->request().placements;
  return parameters == Placement::group && optimizer == Placement::shard;
}

void Parameters::publish(std::span<FlatId const> flats) {
  if (flats.empty()) {
    return;
  }
  if (memory_->context().servers != nullptr) {
    std::ranges::for_each(flats, [this](FlatId flat) { pull(flat); });
    return;
  }
  if (memory_->routes(flats.front()).publish.hops.empty()) {
    if (memory_->request().settings.delayed_update) {  // otherwise compute itself has updated
      for (auto const flat : flats) {
        memory_->update_stream().record(*slot(flat).ready);
      }
    }
    return;
  }
  auto const lane = memory_->routes(flats.front()).publish.lane;
  auto& stream = memory_->stream(lane);
  auto const in_memory = [this](FlatId flat) { return memory_->plan().flats[flat].parameters >= 0; };
  trips_.clear();
  for (auto const flat : flats) {
    if (in_memory(flat)) {
      auto const& route = memory_->routes(flat).publish;
      auto const codec = gather_codec_of(memory_->flat(flat), memory_->request().settings);
      Elements const held{memory_->addresses(flat).parameters, route.hops.back().to.begin, dtype(flat)};
      stream.wait(memory_->updated(flat));
      trips_.push_back({.route = &route, .from = held, .to = held, .codec = codec});
    }
  }
  if (trips_.empty()) {
    return;
  }
  {
    auto const first = *std::ranges::find_if(flats, in_memory);
    device::SpanScope const span{stream, "publish", name(first)};
    carrier_.run({"publish", "publish"}, first, trips_);
  }
  for (auto const flat : flats) {
    if (in_memory(flat)) {
      stream.record(lane == Lane::reduce ? *published_[flat] : *slot(flat).ready);
    }
  }
}

/// Gets a unit from the parameter servers, once compute has used it for the last time. If workers may be stale, that
/// has begun before: see ServerLinks::post_pull().
void Parameters::pull(FlatId flat) {
  auto& links = *memory_->context().servers;
  auto const& part = memory_->flat(flat).trainable;
  stream_->wait(memory_->updated(flat));
  {
    device::SpanScope const span{*stream_, "pull", name(flat)};
    if (links.is_stale()) {
      links.await_pull(*stream_, flat);
    } else {
      links.pull(*stream_, name(flat), part, {memory_->addresses(flat).parameters, 0, dtype(flat)});
    }
  }
  stream_->record(*slot(flat).ready);
  carrier_.count("pull", flat, comm::Operation::receive, part.padded_count * element_bytes(flat));
}

/// Gathers all replicas' slices of a tile, after this rank has updated its own and before the tile is written to the
/// disk: in whole blocks, as they are written.
void Parameters::publish_tile(Tile const& tile, std::byte* slices, std::int64_t bytes_of_each, device::Event& updated,
                              device::Event& published) {
  auto const& [lane, hops] = memory_->routes(tile.flat).publish;
  auto const axes = hops.front().axes;
  auto& stream = memory_->stream(lane);
  stream.wait(updated);
  comm::Collective const gather{.operation = comm::Operation::all_gather,
                                .input = slices + memory_->ranks(lane).over(axes)->rank() * bytes_of_each,
                                .output = slices,
                                .count = bytes_of_each / element_bytes(tile.flat),
                                .dtype = dtype(tile.flat)};
  {
    device::SpanScope const span{stream, "publish", name(tile.flat)};
    carrier_.submit(lane, axes, {"publish", "publish"}, tile.flat, {&gather, 1});
  }
  stream.record(published);
}

template <class F>
void Parameters::drop(F const& is_invalid) noexcept {
  memory_->home_of_parameters().drop();
  for (auto& slot : pool_.slots()) {
    if (slot.flat && is_invalid(*slot.flat)) {
      pool_.unbind(slot);
    }
  }
}

void Parameters::drop_trainable() noexcept {
  drop([this](FlatId flat) { return memory_->flat(flat).trainable.padded_count > 0; });
}

void Parameters::drop_all() {
  for (auto* const offloaded : memory_->offloaded()) {
    offloaded->forget();
  }
  drop([](FlatId) { return true; });
}

void Parameters::start_over() noexcept {
  drop([](FlatId) { return true; });
  pool_.restore_order();
}

std::byte const* Parameters::slot_of(FlatId flat) noexcept {
  auto const* const slot = memory_->parameters_whole(flat) || empty(flat) ? nullptr : pool_.find(flat);
  return slot == nullptr ? nullptr : slot->data;
}

void Parameters::await_gathers() {
  stream_->record(*gathers_done_);
  memory_->compute().wait(*gathers_done_);
  for (auto const& published : published_) {
    memory_->compute().wait(*published);
  }
}

}  // namespace zeroth::shard
