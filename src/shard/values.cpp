// SPDX-License-Identifier: Apache-2.0
#include "shard/values.hpp"

#include <algorithm>
#include <tuple>

#include "core/lane_hash.hpp"

namespace zeroth::shard {
namespace {

/// Where elements of a part are in memory that holds `held` of it: the overlap of both, and its place.
struct Overlap {
  Range elements;
  std::int64_t at = 0;
};
Overlap overlap(Range elements, Range held) noexcept {
  auto const begin = std::max(elements.begin, held.begin);
  auto const end = std::max(begin, std::min(elements.end, held.end));
  return {{begin, end}, begin - held.begin};
}

}  // namespace

Part const& Values::part_of(Location const& location) const noexcept {
  auto const& flat = memory_->flat(location.flat);
  return location.trainable ? flat.trainable : flat.frozen;
}

Range Values::slice_of(ParamId param, int place) const noexcept {
  auto const& location = memory_->layout().location(param);
  return of_param(param, part_of(location).slice(place));
}

Range Values::held_of(ParamId param) const noexcept {  // the optimizer holds nothing that is not among these
  auto const& location = memory_->layout().location(param);
  return of_param(param, memory_->held(part_of(location), memory_->parameters_of(location.flat)));
}

/// Of elements of its part, those of `param`, from its first one.
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

/// Where this rank's compute copy of a part is.
Values::Home Values::compute_copy(FlatId flat, bool trainable) const noexcept {
  auto const& unit = memory_->flat(flat);
  auto const placement = memory_->parameters_of(flat);
  auto const dtype = memory_->request().precision.compute;
  auto const held = memory_->held(trainable ? unit.trainable : unit.frozen, placement);
  if (auto* const disk = memory_->disk_of(flat)) {
    return {{nullptr, {held.begin, held.begin}}, held, &disk->states(), disk->first_of(flat, trainable), dtype};
  }
  auto const before = trainable ? 0 : memory_->held(unit.trainable, placement).count();
  return {
      {memory_->addresses(flat).parameters + before * bytes_of(dtype), held}, {held.end, held.end}, nullptr, 0, dtype};
}

/// Where the optimizer's masters of `flat` are.
Values::Home Values::masters(FlatId flat) const noexcept {
  auto const& precision = memory_->request().precision;
  if (!precision.has_master()) {
    return compute_copy(flat, true);  // the optimizer holds nothing that is not among these
  }
  auto const held = memory_->optimized(flat);
  auto const split = held.begin + memory_->in_memory_count(flat);
  return {
      {memory_->addresses(flat).master, {held.begin, split}}, {split, held.end}, memory_->disk(), 0, precision.master};
}

/// Elements of its part from `first` on, as far as they are held.
void Values::write(FlatId flat, Home const& home, std::int64_t first, std::span<float const> values) {
  auto& compute = memory_->compute();
  Range const elements{first, first + std::ssize(values)};
  auto const convert = [&](std::byte* to, std::int64_t element, std::int64_t count) {
    memory_->kernels().convert(compute, to, home.dtype, values.data() + (element - first), Dtype::fp32, count);
  };
  if (auto const both = overlap(elements, home.in_memory.held); both.elements.count() > 0) {
    convert(home.in_memory.data + both.at * bytes_of(home.dtype), both.elements.begin, both.elements.count());
  }
  if (auto const both = overlap(elements, home.on_disk); both.elements.count() > 0) {
    auto const begin = home.first_on_disk + both.at;
    home.disk->edit(flat, 0, {begin, begin + both.elements.count()},
                    [&](std::byte* to, std::int64_t at, std::int64_t count) {
                      convert(to, both.elements.begin + at, count);
                      compute.synchronize();
                    });
  }
}

void Values::store(ParamId param, std::int64_t first, std::span<float const> values) {
  auto const& [flat, trainable, in_part, offset] = memory_->layout().location(param);
  write(flat, compute_copy(flat, trainable), in_part + first, values);
  if (trainable && memory_->request().precision.has_master()) {
    write(flat, masters(flat), in_part + first, values);
  }
  memory_->compute().synchronize();
}

void Values::load(ParamId param, std::int64_t first, std::span<float> values) {
  auto const& [flat, trainable, in_part, offset] = memory_->layout().location(param);
  auto const home = trainable ? masters(flat) : compute_copy(flat, false);
  auto const begin = in_part + first;
  auto const end = begin + std::ssize(values);
  auto const split = std::clamp(home.on_disk.begin, begin, end);
  read(home.in_memory, home.dtype, begin, values.first(static_cast<std::size_t>(split - begin)));
  if (split < end) {
    auto* const to = values.data() + (split - begin);
    auto const on_disk = home.first_on_disk + split - home.on_disk.begin;
    home.disk->look(flat, 0, {on_disk, on_disk + end - split},
                    [&](std::byte const* from, std::int64_t at, std::int64_t count) {
                      memory_->kernels().convert(memory_->compute(), to + at, Dtype::fp32, from, home.dtype, count);
                      memory_->compute().synchronize();
                    });
  }
}

void Values::load_gradient(ParamId param, std::int64_t first, std::span<float> values) {
  auto const& location = memory_->layout().location(param);
  auto const at = memory_->addresses(location.flat);
  read({at.reduced, memory_->optimized(location.flat)}, at.reduced_dtype, location.in_part + first, values);
}

/// From element `first` of the part on. Waits.
void Values::read(Copy const& copy, Dtype dtype, std::int64_t first, std::span<float> values) {
  if (values.empty()) {
    return;
  }
  memory_->kernels().convert(memory_->compute(), values.data(), Dtype::fp32,
                             copy.data + (first - copy.held.begin) * bytes_of(dtype), dtype, std::ssize(values));
  memory_->compute().synchronize();
}

bool Values::holds(Placement placement) const noexcept {
  return memory_->request().placements.optimizer == placement ||
         std::ranges::any_of(memory_->layout().flats().ids(),
                             [&](FlatId flat) { return memory_->parameters_of(flat) == placement; });
}

std::uint64_t Values::hash(FlatId flat, Placement placement, States states, std::span<std::byte> piece) {
  auto& compute = memory_->compute();
  auto const& unit = memory_->flat(flat);
  auto const& [precision, placements] = std::tie(memory_->request().precision, memory_->request().placements);
  auto const at = memory_->addresses(flat);
  LaneHash hash;
  auto const add = [&](std::byte const* data, std::int64_t count, Dtype dtype) {
    auto const most = static_cast<std::int64_t>(piece.size());
    for (auto left = count * bytes_of(dtype); left > 0;) {
      auto const bytes = std::min(left, most);
      memory_->kernels().copy(compute, piece.data(), data, bytes);
      compute.synchronize();
      hash.add(piece.first(static_cast<std::size_t>(bytes)));
      data += bytes;
      left -= bytes;
    }
  };
  if (memory_->parameters_of(flat) == placement) {
    for (bool const trainable : {true, false}) {
      auto const count = memory_->held(trainable ? unit.trainable : unit.frozen, placement).count();
      auto const home = compute_copy(flat, trainable);
      if (home.disk == nullptr) {
        add(home.in_memory.data, count, home.dtype);
      } else if (count > 0) {
        home.disk->look(flat, 0, {home.first_on_disk, home.first_on_disk + count},
                        [&](std::byte const* from, std::int64_t, std::int64_t some) { add(from, some, home.dtype); });
      }
    }
  }
  if (placements.optimizer == placement) {
    auto const count = memory_->in_memory_count(flat);
    Range const on_disk{0, memory_->optimized(flat).count() - count};
    auto const add_state = [&](std::size_t state, std::byte const* data, Dtype dtype) {
      add(data, count, dtype);
      if (on_disk.count() > 0) {
        memory_->disk()->look(flat, state, on_disk,
                              [&](std::byte const* from, std::int64_t, std::int64_t some) { add(from, some, dtype); });
      }
    };
    if (precision.has_master()) {
      add_state(0, at.master, precision.master);
    }
    if (states == States::with) {
      for (std::size_t k = 0; k < static_cast<std::size_t>(optim::state_count(memory_->request().update.rule)); ++k) {
        add_state(1 + k, at.states[k], precision.states);
      }
    }
  }
  return hash.value();
}

}  // namespace zeroth::shard
