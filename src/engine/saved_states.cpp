// SPDX-License-Identifier: Apache-2.0
#include "engine/saved_states.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include "checkpoint/arrangement.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::engine {
namespace {

using checkpoint::Crossing;
using checkpoint::Found;
using checkpoint::Record;
using checkpoint::Space;
using shard::OwnSlice;
using Places = checkpoint::FoundByName;
using Parts = std::span<Found const>;

std::string_view kind_of(bool trainable) noexcept { return trainable ? "trainable" : "frozen"; }

/// The name that a parameter of the model has in the checkpoint; nullopt if it is not restored.
std::optional<std::string> saved_name(std::string const& name, RestoreOptions const& options) {
  return options.saved_name ? options.saved_name(name) : std::optional{name};
}

/// The saved positions of a parameter of the model; empty if it is not restored.
Parts saved_places(Places const& found, std::string const& name, RestoreOptions const& options) {
  if (!options.saved_name) {
    return found.find(name);
  }
  auto const saved = options.saved_name(name);
  return saved ? found.find(*saved) : Parts{};
}

/// "a" in quotes, or "a" as "b" if the checkpoint has another name for it.
std::string with_saved_name(std::string const& name, std::string const& saved) {
  return saved == name ? config::in_quotes(name)
                       : fmt::format("{} as {}", config::in_quotes(name), config::in_quotes(saved));
}

/// The parameters that only one of the two has.
struct Apart {
  std::vector<std::string> of_model;       ///< Those to be restored, as with_saved_name().
  std::vector<std::string> of_checkpoint;  ///< In quotes.
};

Apart apart(Record const& record, Share const& whole, Places const& found, RestoreOptions const& options) {
  Apart result;
  std::unordered_set<std::string_view> taken;
  taken.reserve(found.size());
  for (auto const& param : whole.params()) {
    auto const saved = saved_name(param.name, options);
    if (!saved) {
      continue;
    }
    if (auto const at = found.find(*saved); !at.empty()) {
      taken.insert(record.contents.spaces[at.front().space].params[at.front().param].name);
    } else {
      result.of_model.push_back(with_saved_name(param.name, *saved));
    }
  }
  for (auto const& space : record.contents.spaces) {
    for (auto const& param : space.params) {
      if (!taken.contains(param.name) && param.comes_first()) {
        result.of_checkpoint.push_back(config::in_quotes(param.name));
      }
    }
  }
  return result;
}

void check_params(Record const& record, Share const& whole, Places const& found, RestoreOptions const& options,
                  std::vector<std::string>& wrong) {
  if (!options.partial) {
    auto const [of_model, of_checkpoint] = apart(record, whole, found, options);
    for (auto const& each : of_model) {
      wrong.push_back(fmt::format("parameter {} is not in the checkpoint", each));
    }
    for (auto const& each : of_checkpoint) {
      wrong.push_back(fmt::format("{} in the checkpoint is not a parameter of the model", each));
    }
  }
  for (auto const& param : whole.params()) {
    auto const at = saved_places(found, param.name, options);
    if (at.empty()) {
      continue;
    }
    auto const& first = at.front();
    auto const& space = record.contents.spaces[first.space];
    auto const& saved = space.params[first.param];
    if (saved.shape != param.shape) {
      wrong.push_back(fmt::format("parameter \"{}\" has shape [{}] in the checkpoint, but [{}] in the model",
                                  param.name, fmt::join(saved.shape, ", "), fmt::join(param.shape, ", ")));
    } else if (space.trainable != param.trainable && options.of == RestoreOf::everything) {
      wrong.push_back(fmt::format("parameter \"{}\" is {} in the checkpoint, but {} in the model", param.name,
                                  kind_of(space.trainable), kind_of(param.trainable)));
    }
  }
}

/// The saved state for a state of the engine; null if there is none, or if it is not to be restored.
checkpoint::SavedState const* saved_state(Space const& space, std::string const& name, RestoreOptions const& options) {
  bool const is_weight = name == "master" || name == "frozen";
  if (options.of == RestoreOf::weights && !is_weight) {
    return nullptr;
  }
  auto const& saved = is_weight ? (space.trainable ? "master" : "frozen") : name;
  auto const found = std::ranges::find(space.states, saved, &checkpoint::SavedState::name);
  return found == space.states.end() ? nullptr : &*found;
}

std::string names_of(auto const& states) {
  std::vector<std::string> names;
  for (auto const& state : states) {
    names.push_back(escaped(state.name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Reports each problem once, for all spaces that have it.
void check_states(Record const& record, std::string const& param, Space const& space,
                  std::vector<OwnSlice> const& slices, Settings const& settings, RestoreOptions const& options,
                  std::set<std::string>& wrong) {
  bool const same_names =
      options.partial || options.of == RestoreOf::weights ||
      std::ranges::is_permutation(space.states, slices, {}, &checkpoint::SavedState::name, &OwnSlice::name);
  if (!same_names && settings.matrix_update && record.optimizer == settings.optimizer_name()) {
    wrong.insert(
        fmt::format("parameter {} has states {} in it, and {} here: with optimizer {} these depend on "
                    "ParamOptions::matrix",
                    config::in_quotes(param), names_of(space.states), names_of(slices), escaped(record.optimizer)));
    return;
  }
  if (!same_names) {
    wrong.insert(fmt::format("states are {} (optimizer {}), but the stage file's optimizer keeps {}",
                             names_of(space.states), escaped(record.optimizer), names_of(slices)));
    return;
  }
  for (auto const& slice : slices) {
    auto const* const state = saved_state(space, slice.name, options);
    if (state != nullptr && state->dtype != slice.dtype && !options.convert) {
      wrong.insert(fmt::format(
          "state {} is saved as {}, but is {} here: RestoreOptions::convert rounds it, which changes the run's results",
          state->name, name_of(state->dtype), name_of(slice.dtype)));
    }
  }
}

void check_order(Record const& record, RestoreOptions const& options, std::vector<std::string>& wrong) {
  if (!options.order || !record.order) {
    return;
  }
  auto const& saved = *record.order;
  auto const& given = *options.order;
  bool const are_others =
      saved.fingerprint() != 0 && given.fingerprint() != 0 && saved.fingerprint() != given.fingerprint();
  auto const describe = [&](SampleOrder const& order) {
    auto const text = order.shuffled() ? fmt::format("{} samples, shuffled with seed {}", order.size(), order.seed())
                                       : fmt::format("{} samples in their own order", order.size());
    return saved == given ? fmt::format("{}, with fingerprint {:016x}", text, order.fingerprint()) : text;
  };
  if (are_others || saved != given) {
    wrong.push_back(fmt::format("its data are {}, but the program's are {}", describe(saved), describe(given)));
  }
}

/// Compared by name, because rules may have states of the same names.
void check_optimizer(Record const& record, Settings const& settings, std::vector<std::string>& wrong) {
  if (record.optimizer != settings.optimizer_name()) {
    wrong.push_back(fmt::format("its optimizer is {}, but the stage file's is {}", escaped(record.optimizer),
                                settings.optimizer_name()));
  }
}

/// Calls `take(param, part, own slices)` for every parameter that this rank has a state of.
template <class F>
void each_part(shard::ShardManager const& manager, F const& take) {
  for (auto const flat : manager.memory.layout().flats().ids()) {
    auto const& unit = manager.memory.flat(flat);
    take(unit.trainable, manager.slices.trainable(flat));
    take(unit.frozen, manager.slices.frozen(flat));
  }
}

/// Errors that this rank has: elements `held` of FlatUnit::gradients().
struct HeldErrors {
  shard::FlatId flat;
  float* data;
  bool of_each_rank;  ///< Its own, and not a slice of what all ranks have.
  shard::Range held;
};

std::vector<HeldErrors> errors_here(shard::Memory const& memory) {
  std::vector<HeldErrors> all;
  for (auto const flat : memory.layout().flats().ids()) {
    auto const at = memory.addresses(flat);
    auto const& part = memory.flat(flat).gradients();
    if (at.errors != nullptr) {
      all.push_back({flat, at.errors, true, {0, part.padded_count}});
    }
    if (at.slice_errors != nullptr) {
      all.push_back({flat, at.slice_errors, false, part.slice(memory.place())});
    }
  }
  return all;
}

/// Finds the space that `errors` were saved in by as many ranks as here. Null if there is none.
Space const* saved_errors(Record const& record, shard::Memory const& memory, HeldErrors const& errors) {
  auto const& spaces = record.contents.errors;
  auto const found = std::ranges::find_if(spaces, [&](Space const& space) {
    return space.of_each_rank == errors.of_each_rank &&
           space.unit == checkpoint::name_of_errors(memory, errors.flat, memory.flat(errors.flat).name);
  });
  bool const fits = found != spaces.end() && found->places == memory.layout().world() && found->states.size() == 1 &&
                    found->slice_count == errors.held.count();
  auto const is_saved = [&](shard::Placed const& placed) {
    auto const name = checkpoint::name_of_errors(memory, errors.flat, memory.model().params[placed.param].name);
    auto const param = std::ranges::find(found->params, name, &checkpoint::SavedParam::name);
    return param != found->params.end() && param->count == placed.count && param->at == placed.offset;
  };
  return fits && std::ranges::all_of(memory.flat(errors.flat).gradients().params, is_saved) ? &*found : nullptr;
}

/// Appends the arrivals of `errors`.
void add_errors(Space const& saved, shard::Memory const& memory, HeldErrors const& errors, std::vector<Arrival>& all) {
  shard::HeldState const held{
      .data = reinterpret_cast<std::byte*>(errors.data), .dtype = Dtype::fp32, .in_memory_count = errors.held.count()};
  auto const& state = saved.states.front();
  for (auto const& placed : memory.flat(errors.flat).gradients().params) {
    auto const begin = std::max(placed.offset, errors.held.begin);
    auto const count = std::min(placed.offset + placed.count, errors.held.end) - begin;
    if (count <= 0) {
      continue;
    }
    auto const before = begin - errors.held.begin;
    auto const whole = model::CutPart::all_of(count);
    all.push_back({{{saved.first_place + memory.place(), state.base + before * bytes_of(state.dtype),
                     count * bytes_of(state.dtype)},
                    0},
                   state.dtype,
                   std::make_shared<Crossing const>(Crossing{{}, whole, whole, {}}),
                   held,
                   before});
  }
}

/// The part of a parameter that this rank holds.
model::CutPart held_part(model::ParamDescription const& param) {
  return param.part ? *param.part : model::CutPart::all_of(param.count);
}

}  // namespace

std::vector<std::string> misfits(Record const& record, Share const& whole, Places const& found,
                                 shard::ShardManager const& manager, RestoreOptions const& options) {
  std::vector<std::string> wrong;
  auto const& model = manager.memory.model();
  check_params(record, whole, found, options, wrong);
  if (options.of == RestoreOf::everything) {
    check_order(record, options, wrong);
  }
  if (!wrong.empty()) {
    return wrong;
  }
  std::set<std::string> of_states;
  each_part(manager, [&](shard::Part const& part, std::vector<OwnSlice> const& slices) {
    for (auto const& placed : part.params) {
      auto const& name = model.params[placed.param].name;
      if (auto const places = saved_places(found, name, options); !places.empty()) {
        auto const& space = record.contents.spaces[places.front().space];
        check_states(record, name, space, slices, manager.memory.request().settings, options, of_states);
      }
    }
  });
  wrong.insert(wrong.end(), of_states.begin(), of_states.end());
  if (wrong.empty() && options.of == RestoreOf::everything) {
    check_optimizer(record, manager.memory.request().settings, wrong);
  }
  return wrong;
}

std::vector<std::string> left_out(Record const& record, Share const& whole, Places const& found,
                                  RestoreOptions const& options) {
  std::vector<std::string> lines;
  if (!options.partial) {
    return lines;  // misfits() would have named it
  }
  auto const [of_model, of_checkpoint] = apart(record, whole, found, options);
  for (auto const& each : of_model) {
    lines.push_back(fmt::format("parameter {} is not in it, and keeps its values", each));
  }
  for (auto const& each : of_checkpoint) {
    lines.push_back(fmt::format("{} in it is not a parameter of the model, and was passed over", each));
  }
  return lines;
}

bool has_averages(Record const& record, RestoreOptions const& options) {
  return options.of == RestoreOf::everything && std::ranges::any_of(record.contents.spaces, [](Space const& space) {
           return std::ranges::find(space.states, optim::ema_name, &checkpoint::SavedState::name) != space.states.end();
         });
}

std::vector<Arrival> arrivals(Record const& record, Places const& found, shard::ShardManager const& manager,
                              RestoreOptions const& options) {
  std::vector<Arrival> all;
  auto const& contents = record.contents;
  auto const& memory = manager.memory;
  each_part(manager, [&](shard::Part const& part, std::vector<OwnSlice> const& slices) {
    auto const own = part.slice(memory.place());
    for (auto const& placed : part.params) {
      auto const first = std::max(placed.offset, own.begin) - placed.offset;
      auto const last = std::min(placed.offset + placed.count, own.end) - placed.offset;
      if (first >= last) {
        continue;
      }
      auto const& param = memory.model().params[placed.param];
      auto const places = saved_places(found, param.name, options);
      if (places.empty()) {
        continue;
      }
      for (auto& each : crossings(contents, places, held_part(param), first, last - first)) {
        auto const crossing = std::make_shared<Crossing const>(std::move(each));
        auto const& space = contents.spaces[crossing->at.space];
        for (auto const& slice : slices) {
          auto const* const state = saved_state(space, slice.name, options);
          if (state == nullptr) {
            continue;
          }
          for (auto const& piece : pieces_of(contents, *crossing, *state)) {
            all.push_back({piece, state->dtype, crossing, slice, placed.offset - own.begin});
          }
        }
      }
    }
  });
  if (options.of == RestoreOf::everything && has_errors(record, manager)) {
    for (auto const& errors : errors_here(memory)) {
      add_errors(*saved_errors(record, memory, errors), memory, errors, all);
    }
  }
  return all;
}

bool has_errors(Record const& record, shard::ShardManager const& manager) {
  return std::ranges::all_of(errors_here(manager.memory), [&](HeldErrors const& errors) {
    return saved_errors(record, manager.memory, errors) != nullptr;
  });
}

}  // namespace zeroth::engine
