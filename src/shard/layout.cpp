// SPDX-License-Identifier: Apache-2.0
#include "shard/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::shard {
namespace {

constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) noexcept {
  return (count + multiple - 1) / multiple * multiple;
}

void place(Part& part, Placed placed) {
  placed.offset =
      part.params.empty() ? 0 : round_up(part.params.back().offset + part.params.back().count, alignment_count);
  part.params.push_back(placed);
  part.used_count += placed.count;
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

/// Follows DeepSpeed's rule: parameters become persistent in the order of the model, as long as the limit allows.
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

/// The properties that the parameters of a flat unit share, besides the unit.
struct Sort {
  bool persistent;
  TensorKind tensor_kind;
  bool matrices;
  bool fp32;
  friend bool operator==(Sort const&, Sort const&) = default;
};

/// All sorts, in the order of a unit's flat units.
constexpr auto sorts = [] {
  std::array<Sort, 24> all{};
  auto next = all.begin();
  for (bool const fp32 : {false, true}) {
    for (bool const persistent : {false, true}) {
      for (auto const kind : {TensorKind::cut, TensorKind::whole, TensorKind::partial}) {
        for (bool const matrices : {false, true}) {
          *next++ = {persistent, kind, matrices, fp32};
        }
      }
    }
  }
  return all;
}();

/// "block 3 (whole, matrices, persistent)".
std::string name_of_flat(std::string const& unit, Sort const& sort) {
  constexpr std::array<std::string_view, 3> kinds{"", "whole", "partial"};
  std::string words;
  for (auto const word :
       {kinds[static_cast<std::size_t>(sort.tensor_kind)], std::string_view{sort.matrices ? "matrices" : ""},
        std::string_view{sort.persistent ? "persistent" : ""}, std::string_view{sort.fp32 ? "fp32" : ""}}) {
    words += word.empty() ? "" : fmt::format("{}{}", words.empty() ? "" : ", ", word);
  }
  return words.empty() ? unit : fmt::format("{} ({})", unit, words);
}

/// The copies of `param` on other stages; null if there are none.
model::SharedParam const* shared_with_stages(model::Description const& description, ParamId param) noexcept {
  auto const& shared = description.stage.shared;
  auto const found = std::ranges::find(shared, param, &model::SharedParam::param);
  return found == shared.end() ? nullptr : &*found;
}

/// Whether `param` forms a flat unit by itself.
bool stands_alone(model::Description const& description, ParamId param) noexcept {
  return !description.params[param].ties.empty() || shared_with_stages(description, param) != nullptr;
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

Layout::Layout(model::Description const& description, int world, LayoutOptions const& options)
    : world_{world}, stage_{description.stage.stage}, gradient_count_{description.params.size()} {
  ZEROTH_EXPECTS(world >= 1, fmt::format("a layout for {} ranks", world));
  place_params(description, options);
  for (auto& flat : flats_) {
    flat.writers = flat.users;
  }
  gradients_by_unit_ = by_unit_;
  if (options.tied == TiedGradients::apart) {
    sum_ties_apart(description);
  }
  std::int64_t padded = 0;
  for (auto& flat : flats_) {
    for (auto* const part : {&flat.trainable, &flat.frozen, &flat.apart}) {
      cut(*part, world);
      padded += part->padded_count;
    }
    ZEROTH_EXPECTS(padded <= model::largest_count,
                   fmt::format("a model of {} units for {} ranks has, with the padding of slices, more than {} (2^54) "
                               "elements; allowed: up to that",
                               description.units.size(), world, model::largest_count));
  }
  for (auto& location : by_param_) {
    location.offset = location.in_part + (location.trainable ? 0 : flats_[location.flat].trainable.padded_count);
  }
  set_orders();
  note_what_stays(description);
}

void Layout::note_what_stays(model::Description const& description) {
  flat_stays_open_.assign(flats_.size(), 0);
  flat_stays_gathered_.assign(flats_.size(), 0);
  for (auto const unit : stays_open_.ids()) {
    if (stays_open(unit)) {
      open_units_.push_back(unit);
    }
    for (auto const* const flats : {&by_unit_[unit], &gradients_by_unit_[unit]}) {
      for (auto const flat : *flats) {
        if (stays_open(unit)) {
          flat_stays_open_[flat] = 1;
        }
        if (stays_open(unit) || !description.units[unit].reshard_after_forward) {
          flat_stays_gathered_[flat] = 1;
        }
      }
    }
  }
}

/// Assigns parameters to flat units, which are not cut yet.
void Layout::place_params(model::Description const& description, LayoutOptions const& options) {
  by_unit_.resize(description.units.size());
  by_param_.resize(description.params.size());
  auto const elements = description.stage.stages > 1 ? description.places : elements_of(description);
  auto const persistent = persistent_of(description, options.persistence);
  auto const sort_of = [&](ParamId param) {
    auto const& asked = description.params[param].options;
    return Sort{persistent[param] != 0, tensor_kind_of(description, param), options.matrices_apart && asked.matrix,
                options.fp32_apart && asked.compute == Dtype::fp32};
  };
  auto const open_flat = [&](std::string name, Sort const& sort) {
    auto const id = flats_.next_id();
    flats_.push_back({});
    flats_.back().name = std::move(name);
    flats_.back().persistent = sort.persistent;
    flats_.back().tensor_kind = sort.tensor_kind;
    flats_.back().matrices = sort.matrices;
    flats_.back().fp32 = sort.fp32;
    return id;
  };
  auto const add = [&](FlatId flat, ParamId param) {
    auto const& described = description.params[param];
    auto& part = described.options.trainable ? flats_[flat].trainable : flats_[flat].frozen;
    auto const& shape = described.part ? described.part->whole_shape() : described.shape;
    auto const rows = shape.empty() ? 1 : shape.front();
    auto const whole_count = described.part ? described.part->whole_count() : described.count;
    place(part, {param, 0, described.count, elements[param], id_at<GradientId>(index_of(param)), rows, whole_count});
    by_param_[param] = {flat, described.options.trainable, part.params.back().offset, 0};
  };
  auto const use = [&](FlatId flat, UnitId unit) {
    auto& users = flats_[flat].users;
    users.insert(std::ranges::upper_bound(users, unit), unit);
  };

  for (auto const unit : description.units.ids()) {
    auto const& described = description.units[unit];
    stays_open_.push_back(described.stays_open ? 1 : 0);
    for (auto const& sort : sorts) {
      auto const own = [&](ParamId param) { return !stands_alone(description, param) && sort_of(param) == sort; };
      if (!std::ranges::any_of(described.params, own)) {
        continue;
      }
      auto const flat = open_flat(name_of_flat(described.name, sort), sort);
      for (auto const param : described.params) {
        if (own(param)) {
          add(flat, param);
        }
      }
      use(flat, unit);
      by_unit_[unit].push_back(flat);
    }
    for (auto const param : described.params) {
      if (stands_alone(description, param)) {
        auto const flat = open_flat(description.params[param].name, sort_of(param));
        add(flat, param);
        use(flat, unit);
        by_unit_[unit].push_back(flat);
        auto const* const shared = shared_with_stages(description, param);
        flats_[flat].speaks = shared == nullptr || shared->uses.front().stage == description.stage.stage;
      }
    }
  }
  for (auto const unit : description.units.ids()) {
    for (auto const param : description.units[unit].ties) {
      use(by_param_[param].flat, unit);
      by_unit_[unit].push_back(by_param_[param].flat);
    }
  }
}

void Layout::sum_ties_apart(model::Description const& description) {
  for (auto const param : description.params.ids()) {
    if (auto const& [flat, trainable, in_part, offset] = by_param_[param];
        trainable && stands_alone(description, param)) {
      divide(description, flat, flats_[flat].trainable.params.front(), shared_with_stages(description, param));
    }
  }
}

/// The first user's gradients are accumulated in the parameter's flat unit, every other user's in a separate flat unit.
void Layout::divide(model::Description const& description, FlatId flat, Placed placed,
                    model::SharedParam const* shared) {
  auto const users = flats_[flat].users;
  flats_[flat].writers = {users.front()};
  flats_[flat].of_one_use = true;
  std::vector<FlatId> here{flat};
  for (std::size_t user = 1; user < users.size(); ++user) {
    auto const unit = users[user];
    here.push_back(flats_.next_id());
    std::ranges::replace(gradients_by_unit_[unit], flat, here.back());
    placed.gradient = id_at<GradientId>(gradient_count_++);
    FlatUnit use;
    use.name = fmt::format("{} ({})", flats_[flat].name, description.units[unit].name);
    use.users = use.writers = {unit};
    use.tensor_kind = flats_[flat].tensor_kind;
    use.fp32 = flats_[flat].fp32;
    use.of_one_use = true;
    place(use.apart, placed);
    flats_.push_back(std::move(use));
  }
  Tie tie{flat, {}, {}};
  auto next = here.begin();
  if (shared == nullptr) {
    tie.stages = {description.stage.stage};
    std::ranges::transform(here, std::back_inserter(tie.uses), [&](FlatId of_use) {
      return Tie::Use{description.stage.stage, of_use};
    });
  } else {
    for (auto const& use : shared->uses) {
      tie.uses.push_back({use.stage, use.stage == description.stage.stage ? *next++ : FlatId{}});
      tie.stages.push_back(use.stage);
    }
    std::ranges::sort(tie.stages);
    tie.stages.erase(std::unique(tie.stages.begin(), tie.stages.end()), tie.stages.end());
  }
  ties_.push_back(std::move(tie));
}

void Layout::set_orders() {
  for (auto const flat : flats_.ids()) {
    if (flats_[flat].gradients().padded_count > 0) {
      completion_order_.push_back(flat);
    }
  }
  std::ranges::stable_sort(completion_order_, [this](FlatId a, FlatId b) {
    auto const first_a = flats_[a].writers.front();
    auto const first_b = flats_[b].writers.front();
    return first_a != first_b ? first_a > first_b : a > b;
  });
  std::copy_if(completion_order_.rbegin(), completion_order_.rend(), std::back_inserter(update_order_),
               [this](FlatId flat) { return flats_[flat].trainable.padded_count > 0; });
}

GradientLocation Layout::gradient(UnitId unit, ParamId param) const noexcept {
  for (auto const flat : gradients_by_unit_[unit]) {
    if (auto const& apart = flats_[flat].apart.params; !apart.empty() && apart.front().param == param) {
      return {flat, 0, apart.front().gradient};
    }
  }
  return {by_param_[param].flat, by_param_[param].in_part, id_at<GradientId>(index_of(param))};
}

std::vector<optim::Segment> segments(model::Description const& description, Part const& part, Range range,
                                     float const* trust_ratios) {
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
                        placed.element + in_whole,
                        trust_ratios == nullptr ? nullptr : trust_ratios + index_of(placed.param)});
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
