// SPDX-License-Identifier: Apache-2.0
#include "shard/values.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace zeroth::shard {

Part const& Values::part_of(Location const& location) const noexcept {
  auto const& flat = memory_->flat(location.flat);
  return location.trainable ? flat.trainable : flat.frozen;
}

Range Values::slice_of(ParamId param, int place) const noexcept {
  auto const& location = memory_->layout().location(param);
  return of_param(param, part_of(location).slice(place));
}

Range Values::held_of(ParamId param) const noexcept {  // the optimizer's elements are a subset of these
  auto const& location = memory_->layout().location(param);
  return of_param(param, memory_->held(part_of(location), memory_->parameters_of(location.flat)));
}

/// Converts a range of the part to a range of `param`, clamped to it.
Range Values::of_param(ParamId param, Range const& of_part) const noexcept {
  auto const start = memory_->layout().location(param).in_part;
  auto const count = memory_->model().params[param].count;
  auto const begin = std::clamp(of_part.begin - start, std::int64_t{0}, count);
  return {begin, std::clamp(of_part.end - start, begin, count)};
}

void Values::initialise() {
  constexpr std::int64_t most = 1 << 16;
  auto const& model = memory_->model();
  auto const memory = memory_->context().device->allocate_host(most * bytes_of(Dtype::fp32));
  auto* const values = reinterpret_cast<float*>(memory->data());
  for (auto const param : model.params.ids()) {
    auto const range = held_of(param);
    for (auto first = range.begin; first < range.end; first += most) {
      std::span const piece{values, static_cast<std::size_t>(std::min(most, range.end - first))};
      model::initialise(model.seed, model.params[param], first, piece);
      store(param, first, piece);
    }
  }
}

/// Calls `move(master, average, elements, buffers)` for pieces of all of them; the buffers are host memory for a piece.
template <class F>
void Values::each_average(F const& move) {
  constexpr std::int64_t most = 1 << 16;
  auto const host = memory_->context().device->allocate_host(2 * most * bytes_of(Dtype::fp32));
  std::array const buffers{host->data(), host->data() + most * bytes_of(Dtype::fp32)};
  for (auto const flat : memory_->layout().update_order()) {
    auto const last = static_cast<std::size_t>(optim::state_count(memory_->update_of(flat)));
    auto const master = held_of_updated(*memory_, flat, 0);
    auto const average = held_of_updated(*memory_, flat, last);
    auto const all = memory_->optimized(flat).count();
    for (std::int64_t first = 0; first < all; first += most) {
      move(master, average, {first, std::min(first + most, all)}, buffers);
    }
  }
}

/// Copies `elements` of a state in fp32. Waits.
void Values::take(HeldState const& held, Range elements, std::byte* to) {
  held.look(elements, [&](std::byte const* from, std::int64_t first, std::int64_t count) {
    memory_->kernels().copy(memory_->compute(), to + first * bytes_of(Dtype::fp32), from,
                            count * bytes_of(Dtype::fp32));
    memory_->compute().synchronize();
  });
}

/// Sets `elements` of a state in fp32. Waits.
void Values::put(HeldState const& held, Range elements, std::byte const* from) {
  held.edit(elements, [&](std::byte* to, std::int64_t first, std::int64_t count) {
    memory_->kernels().copy(memory_->compute(), to, from + first * bytes_of(Dtype::fp32),
                            count * bytes_of(Dtype::fp32));
    memory_->compute().synchronize();
  });
}

void Values::begin_averages() {
  each_average([&](HeldState const& master, HeldState const& average, Range elements, auto const& buffers) {
    take(master, elements, buffers[0]);
    put(average, elements, buffers[0]);
  });
}

void Values::swap_averages() {
  each_average([&](HeldState const& master, HeldState const& average, Range elements, auto const& buffers) {
    take(master, elements, buffers[0]);
    take(average, elements, buffers[1]);
    put(master, elements, buffers[1]);
    put(average, elements, buffers[0]);
  });
}

Values::Copy Values::compute_copy(FlatId flat, bool trainable) const {
  auto const& unit = memory_->flat(flat);
  return {held_of_parameters(*memory_, flat, trainable),
          memory_->held(trainable ? unit.trainable : unit.frozen, memory_->parameters_of(flat))};
}

/// The optimizer's copy.
Values::Copy Values::masters(FlatId flat) const {
  return {held_of_updated(*memory_, flat, 0), memory_->optimized(flat)};
}

/// Writes `values` to elements of the part from `first` on, as far as they are held: `put(to, source, count)`.
template <class F>
void Values::write(Copy const& copy, std::int64_t first, std::span<float const> values, F const& put) {
  auto const begin = std::max(first, copy.elements.begin);
  auto const end = std::min(first + std::ssize(values), copy.elements.end);
  if (begin < end) {
    copy.state.edit({begin - copy.elements.begin, end - copy.elements.begin},
                    [&](std::byte* to, std::int64_t at, std::int64_t count) {
                      put(to, values.data() + (begin - first) + at, count);
                    });
  }
}

void Values::store(ParamId param, std::int64_t first, std::span<float const> values) {
  auto const& at = memory_->layout().location(param);
  first += at.in_part;
  write(compute_copy(at.flat, at.trainable), first, values,
        [&](std::byte* to, float const* source, std::int64_t count) {
          round_parameters(*memory_, at.flat, at.trainable, to, source, Dtype::fp32, count);
        });
  if (auto const precision = memory_->precision(at.flat); at.trainable && precision.has_master()) {
    write(masters(at.flat), first, values, [&](std::byte* to, float const* source, std::int64_t count) {
      memory_->kernels().convert(memory_->compute(), to, precision.master, source, Dtype::fp32, count);
    });
  }
  if (auto const& update = memory_->update_of(at.flat); at.trainable && update.ema_decay >= 0) {
    auto const average = static_cast<std::size_t>(optim::state_count(update));
    write({held_of_updated(*memory_, at.flat, average), memory_->optimized(at.flat)}, first, values,
          [&](std::byte* to, float const* source, std::int64_t count) {
            memory_->kernels().copy(memory_->compute(), to, source, count * bytes_of(Dtype::fp32));
          });
  }
  memory_->compute().synchronize();
}

void Values::load(ParamId param, std::int64_t first, std::span<float> values) {
  auto const& [flat, trainable, in_part, offset] = memory_->layout().location(param);
  read(trainable ? masters(flat) : compute_copy(flat, false), in_part + first, values);
}

void Values::load_gradient(ParamId param, std::int64_t first, std::span<float> values) {
  auto const& location = memory_->layout().location(param);
  auto const at = memory_->addresses(location.flat);
  auto const elements = memory_->optimized(location.flat);
  read({{at.reduced, at.reduced_dtype, elements.count()}, elements}, location.in_part + first, values);
}

/// Reads from element `first` of the part on. Waits.
void Values::read(Copy const& copy, std::int64_t first, std::span<float> values) {
  auto const begin = first - copy.elements.begin;
  copy.state.look({begin, begin + std::ssize(values)}, [&](std::byte const* from, std::int64_t at, std::int64_t count) {
    memory_->kernels().convert(memory_->compute(), values.data() + at, Dtype::fp32, from, copy.state.dtype, count);
  });
  memory_->compute().synchronize();
}

bool Values::holds(Placement placement) const noexcept {
  return memory_->request().placements.optimizer == placement ||
         std::ranges::any_of(memory_->layout().flats().ids(),
                             [&](FlatId flat) { return memory_->parameters_of(flat) == placement; });
}

void Values::add_to(LaneHash& hash, HeldState const& held, std::int64_t elements, std::span<std::byte> piece) {
  auto& compute = memory_->compute();
  held.look({0, elements}, [&](std::byte const* data, std::int64_t /*first*/, std::int64_t count) {
    auto const most = static_cast<std::int64_t>(piece.size());
    for (auto left = count * bytes_of(held.dtype); left > 0;) {
      auto const bytes = std::min(left, most);
      memory_->kernels().copy(compute, piece.data(), data, bytes);
      compute.synchronize();
      hash.add(piece.first(static_cast<std::size_t>(bytes)));
      data += bytes;
      left -= bytes;
    }
  });
}

std::uint64_t Values::hash(FlatId flat, Placement placement, States states, std::span<std::byte> piece) {
  auto const& unit = memory_->flat(flat);
  auto const& placements = memory_->request().placements;
  LaneHash hash;
  auto const add = [&](HeldState const& held, std::int64_t elements) { add_to(hash, held, elements, piece); };
  if (memory_->parameters_of(flat) == placement) {
    for (bool const trainable : {true, false}) {
      add(held_of_parameters(*memory_, flat, trainable),
          memory_->held(trainable ? unit.trainable : unit.frozen, placement).count());
    }
  }
  if (placements.optimizer == placement) {
    auto const kept = static_cast<std::size_t>(optim::state_count(memory_->update_of(flat)));
    auto const end = states == States::with ? 1 + kept : 1;
    for (std::size_t state = memory_->precision(flat).has_master() ? 0 : 1; state < end; ++state) {
      add(held_of_updated(*memory_, flat, state), memory_->optimized(flat).count());
    }
  }
  return hash.value();
}

std::uint64_t Values::hash_of_slice(FlatId flat, States states, std::span<std::byte> piece) {
  auto const& part = memory_->flat(flat).trainable;
  auto const before = part.slice(memory_->place()).begin - memory_->optimized(flat).begin;
  auto const kept = static_cast<std::size_t>(optim::state_count(memory_->update_of(flat)));
  LaneHash hash;
  for (std::size_t state = 0; state < (states == States::with ? 1 + kept : 1); ++state) {
    add_to(hash, held_of_updated(*memory_, flat, state).part(before, part.shard_count), part.shard_count, piece);
  }
  return hash.value();
}

}  // namespace zeroth::shard
