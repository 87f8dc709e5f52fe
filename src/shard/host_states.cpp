// SPDX-License-Identifier: Apache-2.0
#include "shard/host_states.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "shard/memory.hpp"

namespace zeroth::shard {

HostStates::HostStates(Parts parts, Memory const& memory)
    : OffloadedStates{std::move(parts)},
      scalars_{device().allocate_host(sizeof(optim::StepScalars))},
      team_{device().holds_values() ? offload().host_threads : 1},
      begun_{device().make_event()},
      ended_{device().make_event()} {
  ::new (scalars_->data()) optim::StepScalars{};
  for (std::int64_t i = 0; i < std::ssize(plan().tiles); ++i) {
    works_.push_back(work_of(i, memory));
  }
}

/// The host may still be reading the works of the last update.
void HostStates::follow_factors(Memory const& memory) {
  updates()->synchronize();
  for (std::int64_t i = 0; i < std::ssize(plan().tiles); ++i) {
    works_[static_cast<std::size_t>(i)] = work_of(i, memory);
  }
}

/// The position of a tile's memory in the storage: its gradient, then its parameters.
std::int64_t HostStates::position(std::int64_t number) const noexcept {
  return plan().host_tiles + number % plan().tiles_in_memory * plan().tile_bytes;
}

device::Stored HostStates::parameters_of(std::int64_t number) const noexcept {
  return {position(number) + plan().in_tile[1], "parameters", unit(tile(number).flat).name};
}

/// Divides a tile's update among the threads.
HostStates::Work HostStates::work_of(std::int64_t number, Memory const& memory) {
  Work work;
  auto const flat = tile(number).flat;
  auto const elements = tile(number).elements;
  auto* const gradient = storage().data() + position(number);
  auto* const parameters = gradient + plan().in_tile[1];
  auto const threads = offload().host_threads;
  auto const most = tile_count((elements.count() + threads - 1) / threads + tile_alignment_count - 1);
  for (auto first = elements.begin; first < elements.end; first += most) {
    Range const share{first, std::min(first + most, elements.end)};
    auto const before = first - elements.begin;
    auto args = memory.update_args(flat, share);
    auto const state = [&](std::size_t k) {
      auto const at = stored(flat, k, first - memory.in_memory_count(flat)).position;
      return states(flat)[k].position < 0 ? nullptr : storage().data() + at;
    };
    args.gradient = gradient + before * bytes_of(args.gradient_dtype);
    args.master = has_masters(flat) ? state(0) : parameters + before * bytes_of(args.master_dtype);
    args.parameter = has_masters(flat) ? parameters + before * bytes_of(args.parameter_dtype) : args.parameter;
    std::array<std::byte*, optim::most_kept_states> kept{};
    for (std::size_t k = 0; k < kept.size(); ++k) {
      kept[k] = state(1 + k);
    }
    set_states(kept, args);
    args.scalars = reinterpret_cast<optim::StepScalars const*>(scalars_->data());
    work.segments.push_back(memory.segments_of(flat, share));
    args.segments = work.segments.back();
    work.shares.push_back(args);
  }
  work.update = {work.shares, &team_};
  return work;
}

void HostStates::acquire(optim::UpdateArgs& args) {
  if (queue().released() == std::ssize(works_)) {
    queue().restart();
  }
  auto const number = queue().released();
  if (number == 0) {
    device().compute().record(*begun_);
    writes().wait(*begun_);
    device().kernels().copy(writes(), scalars_->data(), args.scalars, sizeof(optim::StepScalars));
  }
  auto const bytes = [&args](Dtype dtype) { return static_cast<std::size_t>(args.count * bytes_of(dtype)); };
  bool const masters = has_masters(tile(number).flat);
  auto* const parameters = masters ? args.parameter : args.master;
  parameters_ = {static_cast<std::byte*>(parameters), bytes(args.parameter_dtype)};
  auto const& name = unit(tile(number).flat).name;
  std::array const pieces{
      device::StoredPiece{{position(number), "gradients", name},
                          {static_cast<std::byte*>(const_cast<void*>(args.gradient)), bytes(args.gradient_dtype)}},
      device::StoredPiece{parameters_of(number), parameters_}};  // both are only read
  queue().fill(writes(), [&] { write(name, std::span{pieces}.first(masters ? 1 : 2)); });
  queue().acquire(*updates());
}

void HostStates::update(optim::UpdateArgs const& /*args*/) {
  device().kernels().update_on_host(*updates(), works_[static_cast<std::size_t>(queue().released())].update);
}

void HostStates::release() {
  auto const number = queue().released();
  auto const flat = tile(number).flat;
  queue().release(*updates(), reads(), [&](device::Event const& /*updated*/) {
    device::StoredPiece const piece{parameters_of(number), parameters_};
    read(unit(flat).name, {&piece, 1});
  });
  if (number + 1 == std::ssize(works_) || tile(number + 1).flat != flat) {
    reads().record(*ended_);
    waits().wait(*ended_);
  }
}

}  // namespace zeroth::shard
