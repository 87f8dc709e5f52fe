// SPDX-License-Identifier: Apache-2.0
#include "shard/disk_states.hpp"

#include <fmt/ranges.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroth/core/error.hpp"

namespace zeroth::shard {
namespace {

/// Memory that a disk may still write to, when it answers after all. It stays with the process.
void keep_for_ever(std::unique_ptr<device::Memory> memory) {
  static std::mutex mutex;
  static std::vector<device::Memory*> kept;
  std::lock_guard const lock{mutex};
  kept.push_back(memory.release());
}

device::Overlap overlap_where(bool on) noexcept { return on ? device::Overlap::on : device::Overlap::off; }

/// "exp_avg, exp_avg_sq"
std::string names_of(ById<FlatId, StoredStates> const& states) {
  std::vector<std::string_view> names;
  for (auto const& state : *states.begin()) {
    if (state.position >= 0) {
      names.push_back(state.name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::unique_ptr<device::Storage> make_storage(device::Device& device, DiskPlan const& plan, Offload const& offload,
                                              ById<FlatId, StoredStates> const& states, std::function<void()> check) {
  return plan.tier == Tier::host ? device.make_host_storage(plan.bytes, names_of(states))
                                 : device.make_storage({.folder = offload.folder,
                                                        .bytes = plan.bytes,
                                                        .piece_bytes = offload.piece_bytes,
                                                        .requests = offload.requests,
                                                        .timeout = offload.timeout,
                                                        .check = std::move(check)});
}

}  // namespace

ById<FlatId, StoredStates> stored_states(MemoryPlan const& plan, PlanRequest const& request) {
  std::vector<std::string> names{"master"};
  for (auto const& state : optim::states_of(request.update.rule)) {
    names.push_back(state.name);
  }
  ById<FlatId, StoredStates> all;
  for (auto const& at : plan.flats) {
    StoredStates states;
    for (std::size_t k = 0; k < states.size(); ++k) {
      if (at.on_disk[k] >= 0) {
        auto const bytes = bytes_of(k == 0 ? request.precision.master : request.precision.states);
        states[k] = {at.on_disk[k], at.in_memory_count, bytes, names[k]};
      }
    }
    all.push_back(std::move(states));
  }
  return all;
}

DiskStates::DiskStates(device::Device& device, Layout const& layout, DiskPlan const& plan, Offload const& offload,
                       ById<FlatId, StoredStates> states, std::function<void()> check, StreamNames const& names)
    : layout_{&layout},
      plan_{&plan},
      states_{std::move(states)},
      memory_{device.allocate(device::Category::slots, plan.memory_bytes())},
      storage_{make_storage(device, plan, offload, states_, std::move(check))},
      written_{device.make_event()},
      reads_{device.make_stream(names.reads, overlap_where(offload.reads_ahead))},
      writes_{device.make_stream(names.writes, overlap_where(offload.writes_behind))} {
  if (plan.host_tiles < 0) {
    queue_.emplace(TileQueue::Parts{.device = &device,
                                    .storage = storage_.get(),
                                    .reads = reads_.get(),
                                    .writes = writes_.get(),
                                    .plan = plan_,
                                    .states = &states_,
                                    .layout = layout_,
                                    .memory = memory_->data(),
                                    .reads_ahead = offload.reads_ahead,
                                    .writes_behind = offload.writes_behind});
  } else {
    bool const beside = offload.reads_ahead || offload.writes_behind;
    updates_ = device.make_stream("update", overlap_where(beside));
    host_.emplace(HostQueue::Parts{.device = &device,
                                   .storage = storage_.get(),
                                   .reads = reads_.get(),
                                   .writes = writes_.get(),
                                   .updates = updates_.get(),
                                   .plan = plan_,
                                   .threads = offload.host_threads,
                                   .reads_beside = offload.reads_ahead,
                                   .writes_beside = offload.writes_behind,
                                   .updates_beside = beside});
  }
  window_.emplace(*storage_, changes(), window_memory(0), plan_->bytes);
}

DiskStates::~DiskStates() {
  reads_.reset();
  updates_.reset();
  writes_.reset();
  if (storage_->stuck()) {
    keep_for_ever(std::move(memory_));
  }
}

std::span<std::byte> DiskStates::window_memory(int index) const noexcept {
  if (plan_->window_bytes == 0) {
    return {};
  }
  return {memory_->data() + plan_->tiles_in_memory * plan_->copies * plan_->tile_bytes + index * plan_->window_bytes,
          static_cast<std::size_t>(plan_->window_bytes)};
}

std::span<std::byte> DiskStates::gather_buffer(int index) const noexcept {
  return {window_memory(DiskPlan::windows).data() + index * plan_->tile_bytes,
          static_cast<std::size_t>(plan_->tile_bytes)};
}

std::array<std::byte*, most_updated> DiskStates::acquire() {
  window_->close();
  return queue_->acquire();
}

device::Stored DiskStates::stored(FlatId flat, std::size_t state, std::int64_t first) const noexcept {
  auto const& at = states_[flat][state];
  return {at.position + at.distance(first) * at.element_bytes, at.name, layout_->flats()[flat].name};
}

void DiskStates::use(FlatId flat, std::size_t state, Range elements, Use const& use, bool edits) {
  auto const& of = states_[flat][state];
  for (std::int64_t done = 0; done < elements.count();) {
    auto const count = of.in_a_row(elements.begin + done, elements.count() - done);
    auto const by_elements = [&](std::byte* data, std::int64_t first, std::int64_t bytes) {
      use(data, done + first / of.element_bytes, bytes / of.element_bytes);
    };
    auto const at = stored(flat, state, elements.begin + done);
    edits ? window_->edit(at, count * of.element_bytes, by_elements)
          : window_->look(at, count * of.element_bytes, by_elements);
    done += count;
  }
}

void DiskStates::look(FlatId flat, std::size_t state, Range elements, Use const& use) {
  this->use(flat, state, elements, use, false);
}

void DiskStates::edit(FlatId flat, std::size_t state, Range elements, Use const& use) {
  ZEROTH_EXPECTS(!queue_ || !queue_->is_ahead(), "tiles were read that change on the disk");
  this->use(flat, state, elements, use, true);
}

void DiskStates::forget() {
  if (queue_) {
    queue_->forget();
  }
}

device::Event const& DiskStates::written() {
  window_->close();
  changes().record(*written_);
  return *written_;
}

std::array<std::byte*, most_updated> DiskStates::resident(FlatId flat, std::int64_t first) const noexcept {
  std::array<std::byte*, most_updated> states{};
  for (std::size_t k = 0; k < states.size(); ++k) {
    bool const is_there = states_[flat][k].position >= 0;
    states[k] = is_there ? storage_->data() + stored(flat, k, first).position : nullptr;
  }
  return states;
}

DiskWindow DiskStates::window_on(device::Stream& stream) const noexcept {
  return {*storage_, stream, window_memory(1), plan_->bytes};
}

}  // namespace zeroth::shard
