// SPDX-License-Identifier: Apache-2.0
#include "shard/offloaded_states.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "device/stuck_memory.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {
namespace {

std::unique_ptr<device::Stream> make_stream(device::Device& device, char const* name, bool beside) {
  return device.make_stream(name, beside ? device::Overlap::on : device::Overlap::off);
}

/// "exp_avg, exp_avg_sq"
std::string names_of(ById<FlatId, StoredStates> const& states) {
  std::vector<std::string_view> names;
  for (auto const& of_flat : states) {
    for (auto const& state : of_flat) {
      if (state.position >= 0 && std::ranges::find(names, state.name) == names.end()) {
        names.push_back(state.name);
      }
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::unique_ptr<device::Storage> make_storage(OffloadedStates::Parts const& parts) {
  auto const bytes = parts.plan->bytes;
  if (parts.plan->tier == Tier::host) {
    return parts.device->make_host_storage(bytes, names_of(parts.states), "states");
  }
  auto options = parts.offload->storage;
  options.bytes = bytes;
  options.check = parts.check;
  return parts.device->make_storage(options);
}

bool updated_by_host(DiskPlan const& plan) noexcept { return plan.host_tiles >= 0; }

std::int64_t bytes_in(std::span<device::StoredPiece const> pieces) noexcept {
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0},
                         [](std::int64_t sum, auto const& piece) { return sum + std::ssize(piece.memory); });
}

}  // namespace

ById<FlatId, StoredStates> stored_states(Layout const& layout, MemoryPlan const& plan, PlanRequest const& request) {
  ById<FlatId, StoredStates> all;
  for (auto const flat : plan.flats.ids()) {
    auto const& at = plan.flats[flat];
    std::vector<std::string> names{"master"};
    for (auto const& state : optim::states_of(update_of(layout.flats()[flat], request.settings))) {
      names.push_back(state.name);
    }
    StoredStates states;
    for (std::size_t k = 0; k < states.size(); ++k) {
      if (at.on_disk[k] >= 0) {
        auto const precision = precision_of(layout.flats()[flat], request.settings);
        auto const bytes = bytes_of(k == 0 ? precision.master : precision.states);
        states[k] = {at.on_disk[k], at.in_memory_count, bytes, names[k]};
      }
    }
    all.push_back(std::move(states));
  }
  return all;
}

OffloadedStates::OffloadedStates(Parts parts)
    : StateHome{*parts.device},
      parts_{std::move(parts)},
      memory_{parts_.device->allocate(device::Category::slots, parts_.plan->memory_bytes())},
      storage_{make_storage(parts_)},
      written_{parts_.device->make_event()},
      reads_{make_stream(*parts_.device, parts_.reads, parts_.offload->reads_ahead)},
      writes_{make_stream(*parts_.device, parts_.writes, parts_.offload->writes_behind)},
      updates_{updated_by_host(*parts_.plan) ? make_stream(*parts_.device, "update", parts_.offload->runs_beside())
                                             : nullptr},
      waits_{make_stream(*parts_.device, "compute", false)},
      queue_{*parts_.device, parts_.plan->tiles_in_memory} {
  window_.emplace(*storage_, changes(), window_memory(0), parts_.plan->bytes);
}

OffloadedStates::~OffloadedStates() {
  stop();
  if (storage_->stuck()) {
    device::keep_for_ever(std::move(memory_));
  }
}

void OffloadedStates::stop() noexcept {
  reads_.reset();
  updates_.reset();
  writes_.reset();
}

std::span<std::byte> OffloadedStates::window_memory(int index) const noexcept {
  auto const& plan = this->plan();
  if (plan.window_bytes == 0) {
    return {};
  }
  return {memory() + plan.tiles_in_memory * plan.copies * plan.tile_bytes + index * plan.window_bytes,
          static_cast<std::size_t>(plan.window_bytes)};
}

Tile const& OffloadedStates::tile(std::int64_t number) const noexcept {
  auto const& tiles = plan().tiles;
  return tiles[static_cast<std::size_t>(number % std::ssize(tiles))];
}

void OffloadedStates::read(std::string_view unit, std::span<device::StoredPiece const> pieces) {
  device::SpanScope const span{*reads_, "read", unit};
  storage_->read(*reads_, pieces);
  traffic_.read_bytes += bytes_in(pieces);
}

void OffloadedStates::write(std::string_view unit, std::span<device::StoredPiece const> pieces) {
  device::SpanScope const span{*writes_, "write", unit};
  storage_->write(*writes_, pieces);
  traffic_.written_bytes += bytes_in(pieces);
}

device::Stored OffloadedStates::stored(FlatId flat, std::size_t state, std::int64_t first) const noexcept {
  auto const& at = states(flat)[state];
  return {at.position + at.distance(first) * at.element_bytes, at.name, unit(flat).name};
}

void OffloadedStates::use(FlatId flat, std::size_t state, Range elements, Use const& use, bool edits) {
  if (!device().holds_values()) {
    return;
  }
  auto const& of = states(flat)[state];
  for (std::int64_t done = 0; done < elements.count();) {
    auto const count = of.in_a_row(elements.begin + done, elements.count() - done);
    auto const by_elements = [&](std::byte* data, std::int64_t first, std::int64_t bytes) {
      use(data, done + first / of.element_bytes, bytes / of.element_bytes);
      device().compute().synchronize();
    };
    auto const at = stored(flat, state, elements.begin + done);
    edits ? window_->edit(at, count * of.element_bytes, by_elements)
          : window_->look(at, count * of.element_bytes, by_elements);
    done += count;
  }
}

void OffloadedStates::look(FlatId flat, std::size_t state, Range elements, Use const& use) {
  this->use(flat, state, elements, use, false);
}

void OffloadedStates::edit(FlatId flat, std::size_t state, Range elements, Use const& use) {
  ZEROTH_EXPECTS(queue_.filled() == queue_.released(), "tiles were read that change on the disk");
  this->use(flat, state, elements, use, true);
}

void OffloadedStates::forget() {
  reads_->synchronize();
  queue_.forget();
}

device::Event const& OffloadedStates::written() {
  window_->close();
  changes().record(*written_);
  return *written_;
}

DiskWindow OffloadedStates::window_on(device::Stream& stream) const noexcept {
  return {*storage_, stream, window_memory(1), plan().bytes};
}

double OffloadedStates::held_up_ms() const {
  auto const of = [](device::Stream const* stream, bool beside) {
    return stream == nullptr ? 0 : stream->host_ms() + (beside ? 0 : stream->waited_ms());
  };
  return of(waits_.get(), false) + of(reads_.get(), offload().reads_ahead) +
         of(writes_.get(), offload().writes_behind) + of(updates_.get(), offload().runs_beside());
}

std::string OffloadedStates::warning() const {
  auto const of_storage = storage_->warning();
  return of_storage.empty() ? std::string{}
                            : fmt::format("{} (zero_optimization.{}.nvme_path)", of_storage, parts_.section);
}

}  // namespace zeroth::shard
