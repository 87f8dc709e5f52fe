// SPDX-License-Identifier: Apache-2.0
#include "engine/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

/// A parameter that several units use. A chunk with some of them has it once.
struct TiedLoad {
  std::int64_t load;
  std::vector<std::uint32_t> users;
};

/// Units from which a chunk may begin, and what comes before them.
struct Begins {
  std::vector<std::uint32_t> units;
  std::vector<std::int64_t> before;  ///< The load of all earlier units, and last that of all.
  std::vector<TiedLoad> ties;

  /// The load of the units from begin number `begin` up to begin number `end`.
  [[nodiscard]] std::int64_t load(std::size_t begin, std::size_t end) const {
    auto load = before[end] - before[begin];
    for (auto const& tie : ties) {
      auto const among = std::ranges::count_if(tie.users, [&](std::uint32_t user) {
        return user >= units[begin] && (end == units.size() || user < units[end]);
      });
      load -= among > 1 ? (among - 1) * tie.load : 0;
    }
    return load;
  }
};

std::int64_t load_of(model::UnitDescription const& unit, model::Description const& whole, PipelinePartition partition) {
  if (partition == PipelinePartition::units) {
    return 1;
  }
  bool const flops = partition == PipelinePartition::flops;
  std::int64_t load = 0;
  auto const add = [&](ParamId id) {
    auto const& param = whole.params[id];
    load += !flops ? param.count : param.shape.size() >= 2 ? param.count * unit.rows_per_sample : 0;
  };
  std::ranges::for_each(unit.params, add);
  std::ranges::for_each(unit.ties, add);
  return load;
}

Begins begins_of(model::Description const& whole, PipelinePartition partition) {
  Begins begins;
  std::int64_t all = 0;
  for (auto const id : whole.units.ids()) {
    auto const& unit = whole.units[id];
    if (index_of(id) == 0 || unit.input_per_sample > 0) {
      begins.units.push_back(index_of(id));
      begins.before.push_back(all);
    }
    all += load_of(unit, whole, partition);
  }
  begins.before.push_back(all);
  for (auto const& param : whole.params) {
    if (partition == PipelinePartition::parameters && !param.ties.empty()) {
      begins.ties.push_back({param.count, {index_of(param.owner)}});
      std::ranges::transform(param.ties, std::back_inserter(begins.ties.back().users),
                             [](UnitId user) { return index_of(user); });
    }
  }
  return begins;
}

void refuse_models(model::Description const& whole, std::vector<std::uint32_t> const& first,
                   PipelineSettings const& settings) {
  auto const where = [&](UnitId unit) {
    auto const chunk = chunk_of(first, index_of(unit));
    return static_cast<int>(first.size()) == settings.stages
               ? fmt::format("stage {}", chunk)
               : fmt::format("chunk {} of stage {}", chunk, chunk % settings.stages);
  };
  for (auto const& unit : whole.units) {
    ZEROTH_EXPECTS(!unit.stays_open,
                   fmt::format("unit \"{}\" stays open (UnitOptions::stays_open) around the turns of units that may be "
                               "in other pipeline stages; with zeroth.mesh.pipeline no unit may stay open",
                               unit.name));
  }
  for (auto const& param : whole.params) {
    for (auto const tie : param.ties) {
      bool const apart = chunk_of(first, index_of(tie)) != chunk_of(first, index_of(param.owner));
      if (apart && param.options.trainable && settings.tied_gradients == TiedGradients::together) {
        throw ConfigError{fmt::format(
            "zeroth.tied_gradients is \"together\", but parameter \"{}\" belongs to unit \"{}\" in {} of the pipeline "
            "and is tied to unit \"{}\" in {}, and the two share no memory; allowed: \"apart\", ties within one of "
            "them, or zeroth.mesh.pipeline 1",
            param.name, whole.units[param.owner].name, where(param.owner), whole.units[tie].name, where(tie))};
      }
    }
  }
}

void refuse_first_units(model::Description const& whole, Begins const& begins,
                        std::vector<std::uint32_t> const& first) {
  for (auto const unit : first) {
    if (std::ranges::binary_search(begins.units, unit)) {
      continue;
    }
    auto const after = std::ranges::lower_bound(begins.units, unit);
    auto const near = after == begins.units.end() ? begins.units.back() : *after;
    auto const what = unit < whole.units.size()
                          ? fmt::format("unit {}, \"{}\", which has no UnitOptions::input_per_sample", unit,
                                        whole.units[UnitId{unit}].name)
                          : fmt::format("unit {}, but the model has {}", unit, whole.units.size());
    throw ConfigError{fmt::format(
        "zeroth.pipeline.first_units has {}; allowed: units that a chunk may begin with; nearest: {}, \"{}\"", what,
        near, whole.units[UnitId{near}].name)};
  }
}

/// The begins that minimise the largest load of `wanted` chunks.
std::vector<std::uint32_t> balanced(Begins const& begins, std::size_t wanted) {
  auto const count = begins.units.size();
  // least[s][b]: the largest load of a chunk if the last s chunks begin with begins.units[b].
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::vector least(wanted + 1, std::vector<std::int64_t>(count + 1, none));
  std::vector next(wanted + 1, std::vector<std::size_t>(count + 1, count));
  least[0][count] = 0;
  for (std::size_t s = 1; s <= wanted; ++s) {
    for (std::size_t begin = 0; begin < count; ++begin) {
      for (auto end = begin + 1; end <= count; ++end) {
        auto const most = std::max(least[s - 1][end], begins.load(begin, end));
        if (least[s - 1][end] != none && most < least[s][begin]) {
          least[s][begin] = most;
          next[s][begin] = end;
        }
      }
    }
  }
  std::vector<std::uint32_t> first;
  std::size_t at = 0;
  for (auto s = wanted; s > 0; --s) {
    first.push_back(begins.units[at]);
    at = next[s][at];
  }
  return first;
}

}  // namespace

std::vector<std::uint32_t> first_units(model::Description const& whole, PipelineSettings const& settings) {
  auto const begins = begins_of(whole, settings.partition);
  auto const count = begins.units.size();
  auto const wanted = static_cast<std::size_t>(settings.all_chunks());
  if (count < wanted) {
    throw ConfigError{fmt::format(
        "zeroth.mesh.pipeline is {}{}, but the model has {} that a stage may begin with: its first unit, and those "
        "with UnitOptions::input_per_sample; allowed: 1 to {}{}",
        settings.stages, settings.chunks > 1 ? fmt::format(" and zeroth.pipeline.chunks {}", settings.chunks) : "",
        count == 1 ? "1 unit" : fmt::format("{} units", count), count / static_cast<std::size_t>(settings.chunks),
        settings.chunks > 1 ? " stages of as many chunks" : "")};
  }
  if (!settings.first_units.empty()) {
    refuse_first_units(whole, begins, settings.first_units);
  }
  auto first = settings.first_units.empty() ? balanced(begins, wanted) : settings.first_units;
  refuse_models(whole, first, settings);
  return first;
}

int chunk_of(std::vector<std::uint32_t> const& first, std::uint32_t unit) noexcept {
  return static_cast<int>(std::ranges::upper_bound(first, unit) - first.begin()) - 1;
}

}  // namespace zeroth::engine
