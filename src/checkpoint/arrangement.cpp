// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/arrangement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace zeroth::checkpoint {
namespace {

/// The names of the units that use `param`, without the first one.
std::vector<std::string> further_users(model::Description const& model, ParamId param) {
  std::vector<std::string> names;
  auto const& shared = model.stage.shared;
  if (auto const found = std::ranges::find(shared, param, &model::SharedParam::param); found != shared.end()) {
    std::transform(found->uses.begin() + 1, found->uses.end(), std::back_inserter(names),
                   [](auto const& use) { return use.unit; });
    return names;
  }
  for (auto const unit : model.params[param].ties) {
    names.push_back(model.units[unit].name);
  }
  return names;
}

void add_part(Arrangement& arrangement, int first_place, shard::Memory const& memory, shard::FlatUnit const& flat,
              shard::Part const& part, std::vector<shard::OwnSlice> const& slices) {
  auto const& model = memory.model();
  bool const is_of_first = flat.tensor_kind != shard::TensorKind::cut;  // the first tensor rank saves it: all have the
                                                                        // same
  if (slices.empty() || !flat.speaks || (is_of_first && model.tensor.index > 0)) {
    return;
  }
  Space space{.unit = flat.name,
              .trainable = &part == &flat.trainable,
              .of_each_rank = false,
              .first_place = first_place,
              .places = memory.layout().world(),
              .slice_count = part.shard_count,
              .params = {},
              .states = {}};
  for (auto const& placed : part.params) {
    auto const& param = model.params[placed.param];
    space.params.push_back({param.name, param.global_shape(), param.count, placed.offset, {}, {}});
    space.params.back().ties = further_users(model, placed.param);
    if (param.part) {
      space.params.back().cut = SavedCut{*param.options.cut, model.tensor};
    }
  }
  for (auto const& slice : slices) {
    space.states.push_back({slice.name, slice.dtype, 0});
    auto const bytes = bytes_of(slice.dtype);
    if (slice.in_memory_count > 0) {
      arrangement.sources.push_back({slice.data, slice.in_memory_count * bytes, flat.name});
    }
    if (auto const count = part.shard_count - slice.in_memory_count; count > 0) {
      auto const& [disk, of, state, first] = slice.rest;
      arrangement.sources.push_back({nullptr, count * bytes, flat.name, disk, disk->stored(of, state, first)});
    }
  }
  arrangement.contents.spaces.push_back(std::move(space));
}

/// Adds `errors` of `flat`, whose slices have `slice_count` elements.
void add_errors(Arrangement& arrangement, int first_place, shard::Memory const& memory, shard::FlatId flat,
                float const* errors, bool of_each_rank, std::int64_t slice_count) {
  if (errors == nullptr) {
    return;
  }
  auto const& model = memory.model();
  auto const& part = memory.flat(flat).gradients();
  Space space{.unit = name_of_errors(memory, flat, memory.flat(flat).name),
              .of_each_rank = of_each_rank,
              .first_place = first_place,
              .places = memory.layout().world(),
              .slice_count = slice_count,
              .params = {},
              .states = {{of_each_rank ? "error" : "slice_error", Dtype::fp32, 0}}};
  for (auto const& placed : part.params) {
    auto const& param = model.params[placed.param];
    space.params.push_back(
        {name_of_errors(memory, flat, param.name), param.global_shape(), param.count, placed.offset, {}, {}});
  }
  arrangement.contents.errors.push_back(std::move(space));
  arrangement.sources.push_back(
      {reinterpret_cast<std::byte const*>(errors), slice_count * bytes_of(Dtype::fp32), memory.flat(flat).name});
}

/// Adds the errors of encoding on this rank.
void add_errors(Arrangement& arrangement, int first_place, shard::Memory const& memory) {
  for (auto const flat : memory.layout().flats().ids()) {
    auto const at = memory.addresses(flat);
    auto const& part = memory.flat(flat).gradients();
    add_errors(arrangement, first_place, memory, flat, at.errors, true, part.padded_count);
    add_errors(arrangement, first_place, memory, flat, at.slice_errors, false, part.shard_count);
  }
  arrangement.errors = arrangement.sources.size();
}

}  // namespace

std::string name_of_errors(shard::Memory const& memory, shard::FlatId flat, std::string const& name) {
  auto const& unit = memory.flat(flat);
  if (!unit.of_one_use) {
    return name;
  }
  auto const& model = memory.model();
  return fmt::format("{} ({})", model.params[unit.gradients().params.front().param].name,
                     model.units[unit.writers.front()].name);
}

Arrangement arrange(shard::ShardManager const& manager, int first_place, int places) {
  auto const& memory = manager.memory;
  auto const& layout = memory.layout();
  Arrangement arrangement;
  arrangement.contents.places = places;
  arrangement.contents.tensor_ranks = memory.model().tensor.of;
  arrangement.reads.resize(layout.flats().size());
  add_errors(arrangement, first_place, memory);
  for (auto const flat : layout.update_order()) {
    auto const& unit = memory.flat(flat);
    add_part(arrangement, first_place, memory, unit, unit.trainable, manager.slices.trainable(flat));
    arrangement.reads[flat] = arrangement.sources.size();
  }
  for (auto const flat : layout.flats().ids()) {  // no update writes to frozen states
    auto const& unit = memory.flat(flat);
    add_part(arrangement, first_place, memory, unit, unit.frozen, manager.slices.frozen(flat));
  }
  place_states(arrangement.contents);
  return arrangement;
}

}  // namespace zeroth::checkpoint
