// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/arrangement.hpp"

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

/// What encoding has lost of this rank's gradients.
void add_errors(Arrangement& arrangement, int first_place, shard::Memory const& memory) {
  auto const& model = memory.model();
  for (auto const flat : memory.layout().flats().ids()) {
    auto const* const errors = memory.addresses(flat).errors;
    if (errors == nullptr) {
      continue;
    }
    auto const& part = memory.flat(flat).gradients();
    Space space{.unit = memory.flat(flat).name,
                .trainable = true,
                .first_place = first_place,
                .places = memory.layout().world(),
                .slice_count = part.padded_count,
                .params = {},
                .states = {{"error", Dtype::fp32, 0}}};
    for (auto const& placed : part.params) {
      auto const& param = model.params[placed.param];
      space.params.push_back({param.name, param.global_shape(), param.count, placed.offset, {}, {}});
    }
    arrangement.contents.errors.push_back(std::move(space));
    arrangement.sources.push_back({reinterpret_cast<std::byte const*>(errors),
                                   part.padded_count * bytes_of(Dtype::fp32), memory.flat(flat).name});
  }
  arrangement.errors = arrangement.sources.size();
}

}  // namespace

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
