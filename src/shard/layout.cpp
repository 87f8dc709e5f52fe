// SPDX-License-Identifier: Apache-2.0
#include "shard/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "zeroth/core/error.hpp"

namespace zeroth::shard {
namespace {

constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) noexcept {
  return (count + multiple - 1) / multiple * multiple;
}

void place(Part& part, ParamId param, std::int64_t count, std::int64_t element) {
  auto const offset =
      part.params.empty() ? 0 : round_up(part.params.back().offset + part.params.back().count, alignment_count);
  part.params.push_back({param, offset, count, element});
  part.used_count += count;
}

void cut(Part& part, int world) {
  std::int64_t end = 0;
  for (auto const& placed : part.params) {
    if (placed.offset > end) {
      part.padding.push_back({end, placed.offset});
    }
    end = placed.offset + placed.count;
  }
  part.shard_count = round_up(end, world * alignment_count) / world;
  part.padded_count = world * part.shard_count;
  if (part.padded_count > end) {
    part.padding.push_back({end, part.padded_count});
  }
}

/// By DeepSpeed's rule: in the order of the model, as long as there is room.
ById<ParamId, char> persistent_of(model::Description const& description, PersistenceSettings const& persistence) {
  ById<ParamId, char> persistent;
  std::int64_t in_all = 0;
  for (auto const& param : description.params) {
    bool const is = param.count <= persistence.param_count && param.count <= persistence.model_count - in_all;
    in_all += is ? param.count : 0;
    persistent.push_back(is ? 1 : 0);
  }
  return persistent;
}

TensorKind tensor_kind_of(model::Description const& description, ParamId param) {
  auto const& options = description.params[param].options;
  if (description.tensor.of == 1 || options.cut) {
    return TensorKind::cut;
  }
  return options.partial ? TensorKind::partial : TensorKind::whole;
}

/// "block 3 (whole, persistent)".
std::string name_of_flat(std::string const& unit, TensorKind kind, bool persists) {
  constexpr std::array<std::string_view, 3> kinds{"", "whole", "partial"};
  auto const of_kind = kinds[static_cast<std::size_t>(kind)];
  if (of_kind.empty() && !persists) {
    return unit;
  }
  auto const* const separator = of_kind.empty() || !persists ? "" : ", ";
  return fmt::format("{} ({}{}{})", unit, of_kind, separator, persists ? "persistent" : "");
}

std::vector<FlatId> completion_order_of(ById<FlatId, FlatUnit> const& flats) {
  std::vector<FlatId> order;
  for (auto const flat : flats.ids()) {
    if (flats[flat].trainable.padded_count > 0) {
      order.push_back(flat);
    }
  }
  std::ranges::stable_sort(order, [&](FlatId a, FlatId b) {
    auto const first_a = flats[a].users.front();
    auto const first_b = flats[b].users.front();
    return first_a != first_b ? first_a > first_b : a > b;
  });
  return order;
}

}  // namespace

ById<ParamId, std::int64_t> elements_of(model::Description const& description) {
  ById<ParamId, std::int64_t> elements;
  std::int64_t end = 0;
  for (auto const& param : description.params) {
    elements.push_back(end);
    end += round_up(param.global_count(), alignment_count);
  }
  return elements;
}

Layout::Layout(model::Description const& description, int world, PersistenceSettings const& persistence)
    : world_{world} {
  ZEROTH_EXPECTS(world >= 1, fmt::format("a layout for {} ranks", world));
  by_unit_.resize(description.units.size());
  by_param_.resize(description.params.size());
  auto const elements = description.stage.stages > 1 ? description.places : elements_of(description);
  auto const persistent = persistent_of(description, persistence);
  auto const open_flat = [&](std::string name, bool persists, TensorKind kind) {
    auto const id = flats_.next_id();
    flats_.push_back({.name = std::move(name),
                      .trainable = {},
                      .frozen = {},
                      .users = {},
                      .persistent = persists,
                      .tensor_kind = kind});
    return id;
  };
  auto const add = [&](FlatId flat, ParamId param) {
    auto const& described = description.params[param];
    auto& part = described.options.trainable ? flats_[flat].trainable : flats_[flat].frozen;
    place(part, param, described.count, elements[param]);
    by_param_[param] = {flat, described.options.trainable, part.params.back().offset, 0};
  };
  auto const use = [&](FlatId flat, UnitId unit) {
    auto& users = flats_[flat].users;
    users.insert(std::ranges::upper_bound(users, unit), unit);
  };

  ById<ParamId, FlatId> flat_of_tied(description.params.size());
  for (auto const unit : description.units.ids()) {
    auto const& described = description.units[unit];
    stays_open_.push_back(described.stays_open ? 1 : 0);
    auto const tied = [&](ParamId param) { return !description.params[param].ties.empty(); };
    auto const open_own = [&](bool persists, TensorKind kind) {
      auto const own = [&](ParamId param) {
        return !tied(param) && (persistent[param] != 0) == persists && tensor_kind_of(description, param) == kind;
      };
      if (!std::ranges::any_of(described.params, own)) {
        return;
      }
      auto const flat = open_flat(name_of_flat(described.name, kind, persists), persists, kind);
      for (auto const param : described.params) {
        if (own(param)) {
          add(flat, param);
        }
      }
      use(flat, unit);
      by_unit_[unit].push_back(flat);
    };
    for (bool const persists : {false, true}) {
      for (auto const kind : {TensorKind::cut, TensorKind::whole, TensorKind::partial}) {
        open_own(persists, kind);
      }
    }
    for (auto const param : described.params) {
      if (tied(param)) {
        auto const flat =
            open_flat(description.params[param].name, persistent[param] != 0, tensor_kind_of(description, param));
        add(flat, param);
        use(flat, unit);
        flat_of_tied[param] = flat;
        by_unit_[unit].push_back(flat);
      }
    }
  }
  for (auto const unit : description.units.ids()) {
    for (auto const param : description.units[unit].ties) {
      use(flat_of_tied[param], unit);
      by_unit_[unit].push_back(flat_of_tied[param]);
    }
  }
  std::int64_t padded = 0;
  for (auto& flat : flats_) {
    cut(flat.trainable, world);
    cut(flat.frozen, world);
    padded += flat.padded_count();
    ZEROTH_EXPECTS(padded <= model::largest_count,
                   fmt::format("a model of {} units for {} ranks has, with the padding of slices, more than {} (2^54) "
                               "elements; allowed: up to that",
                               description.units.size(), world, model::largest_count));
  }
  for (auto& location : by_param_) {
    location.offset = location.in_part + (location.trainable ? 0 : flats_[location.flat].trainable.padded_count);
  }
  completion_order_ = completion_order_of(flats_);
  flat_stays_open_.assign(flats_.size(), 0);
  for (auto const unit : stays_open_.ids()) {
    if (stays_open(unit)) {
      open_units_.push_back(unit);
      for (auto const flat : by_unit_[unit]) {
        flat_stays_open_[flat] = 1;
      }
    }
  }
}

std::vector<optim::Segment> segments(model::Description const& description, Part const& part, Range range) {
  std::vector<optim::Segment> result;
  for (auto const& placed : part.params) {
    auto const begin = std::max(placed.offset, range.begin);
    auto const end = std::min(placed.offset + placed.count, range.end);
    if (begin >= end) {
      continue;
    }
    auto const& param = description.params[placed.param];
    auto const add = [&](std::int64_t first, std::int64_t in_whole, std::int64_t count) {  // elements of the parameter
      auto const at = placed.offset + first - range.begin;
      result.push_back({at, at + count, param.options.learning_rate_factor, param.options.weight_decay_factor,
                        placed.element + in_whole});
    };
    auto const first = begin - placed.offset;
    if (!param.part) {
      add(first, first, end - begin);
      continue;
    }
    param.part->each_run(first, end - begin, [&](model::CutPart::Run const& run) {
      if (!run.is_padding()) {
        add(run.first, run.in_whole, run.count);
      }
    });
  }
  return result;
}

}  // namespace zeroth::shard
