// SPDX-License-Identifier: Apache-2.0
#include "shard/host_queue.hpp"

#include <new>
#include <utility>

#include "device/kernels.hpp"

namespace zeroth::shard {

HostQueue::HostQueue(Parts const& parts)
    : parts_{parts},
      scalars_{parts.device->allocate_host(sizeof(optim::StepScalars))},
      team_{parts.device->holds_values() ? parts.threads : 1},
      begun_{parts.device->make_event()},
      ended_{parts.device->make_event()},
      waits_{parts.device->make_stream("compute", device::Overlap::off)} {
  auto& device = *parts.device;
  for (int i = 0; i < parts.plan->tiles_in_memory; ++i) {
    buffers_.push_back({parts.plan->host_tiles + i * parts.plan->tile_bytes, device.make_event(), device.make_event(),
                        device.make_event()});
  }
}

void HostQueue::set_tiles(std::vector<HostTile> tiles) {
  tiles_ = std::move(tiles);
  auto const* const scalars = ::new (scalars_->data()) optim::StepScalars{};
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    auto& tile = tiles_[i];
    auto* const gradient = parts_.storage->data() + buffer(i).position;
    auto* const parameters = gradient + parts_.plan->in_tile[1];
    std::int64_t first = 0;
    for (std::size_t k = 0; k < tile.shares.size(); ++k) {
      auto& args = tile.shares[k];
      args.gradient = gradient + first * bytes_of(args.gradient_dtype);
      if (tile.takes_parameters) {
        args.master = parameters + first * bytes_of(args.master_dtype);
      } else {
        args.parameter = parameters + first * bytes_of(args.parameter_dtype);
      }
      args.segments = tile.segments[k];
      args.scalars = scalars;
      first += args.count;
    }
    tile.update = {tile.shares, &team_};
  }
}

void HostQueue::begin(optim::StepScalars const& decided) {
  parts_.device->compute().record(*begun_);
  parts_.writes->wait(*begun_);
  parts_.device->kernels().copy(*parts_.writes, scalars_->data(), &decided, sizeof decided);
}

/// Takes what an update reads to the host.
void HostQueue::take(HostTile const& tile, Buffer const& to) {
  auto& stream = *parts_.writes;
  device::SpanScope const span{stream, "write", tile.unit};
  auto const write = [&](std::size_t what, std::string_view name, std::span<std::byte const> memory) {
    parts_.storage->write(stream, {to.position + parts_.plan->in_tile[what], name, tile.unit}, memory);
    traffic_.written_bytes += std::ssize(memory);
  };
  write(0, "gradients", tile.gradient);
  if (tile.takes_parameters) {
    write(1, "parameters", tile.parameters);
  }
}

void HostQueue::update(std::size_t number) {
  auto const& tile = tiles_[number];
  auto& at = buffer(number);
  auto& reads = *parts_.reads;
  auto& writes = *parts_.writes;
  auto& updates = *parts_.updates;
  writes.wait(*at.free);
  take(tile, at);
  writes.record(*at.ready);
  updates.wait(*at.ready);
  {
    device::SpanScope const span{updates, "update", tile.unit};
    parts_.device->kernels().update_on_host(updates, tile.update);
  }
  updates.record(*at.updated);
  reads.wait(*at.updated);
  {
    device::SpanScope const span{reads, "read", tile.unit};
    device::Stored const from{at.position + parts_.plan->in_tile[1], "parameters", tile.unit};
    parts_.storage->read(reads, from, tile.parameters);
    traffic_.read_bytes += std::ssize(tile.parameters);
  }
  reads.record(*at.free);
}

void HostQueue::end() {
  parts_.reads->record(*ended_);
  waits_->wait(*ended_);
}

double HostQueue::held_up_ms() const {
  auto const of = [](device::Stream const& stream, bool beside) {
    return stream.host_ms() + (beside ? 0 : stream.waited_ms());
  };
  return of(*waits_, false) + of(*parts_.reads, parts_.reads_beside) + of(*parts_.writes, parts_.writes_beside) +
         of(*parts_.updates, parts_.updates_beside);
}

}  // namespace zeroth::shard
