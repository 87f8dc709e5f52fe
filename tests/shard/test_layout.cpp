// SPDX-License-Identifier: Apache-2.0
/// Properties of the layout, over random models and world sizes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "shard/layout.hpp"
#include "shard/random_model.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using model::Description;
using shard::FlatUnit;
using shard::Layout;
using shard::LayoutOptions;
using shard::Part;
using shard::Range;

constexpr unsigned models = 60;

template <class F>
void for_every_layout(F const& check) {
  for (unsigned seed = 0; seed < models; ++seed) {
    auto const model = random_model(seed);
    for (auto const world : worlds) {
      INFO(fmt::format("model {}, {} ranks", seed, world));
      check(model.description(), Layout{model.description(), world});
      check(model.description(), Layout{model.description(), world, {.matrices_apart = true}});
      check(model.description(), Layout{model.description(), world, {.matrices_apart = true, .fp32_apart = true}});
    }
  }
}

template <class F>
void for_every_part(Layout const& layout, F const& check) {
  for (auto const& flat : layout.flats()) {
    check(flat.trainable);
    check(flat.frozen);
  }
}

/// Whether `ranges`, in ascending order, cover [0, count) without gaps and overlaps.
bool tile(std::vector<Range> ranges, std::int64_t count) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::int64_t end = 0;
  for (auto const& range : ranges) {
    if (range.begin != end || range.end <= range.begin) {
      return false;
    }
    end = range.end;
  }
  return end == count;
}

std::vector<Range> params_of(Part const& part) {
  std::vector<Range> ranges;
  for (auto const& placed : part.params) {
    ranges.push_back({placed.offset, placed.offset + placed.count});
  }
  return ranges;
}

}  // namespace

TEST_CASE("random models are as odd as they should be") {
  int empty = 0;
  int frozen = 0;
  int tied = 0;
  int without_units = 0;
  for (unsigned seed = 0; seed < models; ++seed) {
    auto const model = random_model(seed);
    auto const& d = model.description();
    without_units += d.units.empty() ? 1 : 0;
    empty += std::ranges::any_of(d.units, [](auto const& unit) { return unit.params.empty(); }) ? 1 : 0;
    frozen += std::ranges::any_of(d.params, [](auto const& param) { return !param.options.trainable; }) ? 1 : 0;
    tied += std::ranges::any_of(d.params, [](auto const& param) { return param.ties.size() > 1; }) ? 1 : 0;
  }
  CHECK(without_units > 0);
  CHECK(empty > 5);
  CHECK(frozen > 20);
  CHECK(tied > 20);
}

TEST_CASE("every parameter is placed once, where its location says") {
  for_every_layout([](Description const& d, Layout const& layout) {
    ById<ParamId, int> placed(d.params.size(), 0);
    bool good = true;
    for (auto const f : layout.flats().ids()) {
      auto const& flat = layout.flats()[f];
      for (bool const trainable : {true, false}) {
        auto const& part = trainable ? flat.trainable : flat.frozen;
        auto const before = trainable ? 0 : flat.trainable.padded_count;
        for (auto const& at : part.params) {
          auto const& location = layout.location(at.param);
          ++placed[at.param];
          good = good && at.count == d.params[at.param].count && location.flat == f &&
                 location.trainable == trainable && location.offset == before + at.offset &&
                 d.params[at.param].options.trainable == trainable;
        }
      }
    }
    CHECK(good);
    CHECK(std::ranges::all_of(placed, [](int times) { return times == 1; }));
  });
}

TEST_CASE("parameters and slices are aligned, and slices are equal and cover a part once") {
  for_every_layout([](Description const&, Layout const& layout) {
    bool aligned = true;
    bool covered = true;
    for_every_part(layout, [&](Part const& part) {
      aligned = aligned && part.shard_count % shard::alignment_count == 0;
      for (auto const& at : part.params) {
        aligned = aligned && at.offset % shard::alignment_count == 0;
      }
      covered = covered && part.padded_count == layout.world() * part.shard_count;
      std::int64_t end = 0;
      for (int rank = 0; rank < layout.world(); ++rank) {
        covered = covered && part.slice(rank).begin == end && part.slice(rank).count() == part.shard_count;
        end = part.slice(rank).end;
      }
      covered = covered && end == part.padded_count;
    });
    CHECK(aligned);
    CHECK(covered);
  });
}

TEST_CASE("parameters and padding are the whole, and there is no more padding than alignment takes") {
  for_every_layout([](Description const&, Layout const& layout) {
    bool good = true;
    for_every_part(layout, [&](Part const& part) {
      auto ranges = params_of(part);
      auto const used = std::accumulate(ranges.begin(), ranges.end(), std::int64_t{0},
                                        [](auto sum, Range r) { return sum + r.count(); });
      auto const last = ranges.empty() ? 0 : ranges.back().end;
      good = good && part.used_count == used;
      good = good && part.padded_count - last < layout.world() * shard::alignment_count;
      std::int64_t end = 0;
      for (auto const& range : ranges) {
        good = good && range.begin >= end && range.begin - end < shard::alignment_count;
        end = range.end;
      }
      good = good && std::ranges::is_sorted(part.padding, {}, &Range::begin);
      ranges.insert(ranges.end(), part.padding.begin(), part.padding.end());
      good = good && tile(ranges, part.padded_count);
      good = good && part.params.empty() == (part.padded_count == 0);
    });
    CHECK(good);
  });
}

TEST_CASE("a unit's own parameters are one flat unit, and a tied one is a flat unit of its own") {
  for_every_layout([](Description const& d, Layout const& layout) {
    bool good = true;
    ById<UnitId, std::set<shard::FlatId>> used_by(d.units.size());
    for (auto const f : layout.flats().ids()) {
      auto const& flat = layout.flats()[f];
      std::set<UnitId> expected;
      for (auto const* part : {&flat.trainable, &flat.frozen}) {
        for (auto const& at : part->params) {
          auto const& param = d.params[at.param];
          expected.insert(param.owner);
          expected.insert(param.ties.begin(), param.ties.end());
          bool const alone = flat.trainable.params.size() + flat.frozen.params.size() == 1;
          auto const* const suffix = flat.matrices && flat.fp32 ? " (matrices, fp32)"
                                     : flat.matrices            ? " (matrices)"
                                     : flat.fp32                ? " (fp32)"
                                                                : "";
          good = good && (param.ties.empty() ? flat.name == d.units[param.owner].name + suffix
                                             : alone && flat.name == param.name);
          good = good && (param.options.matrix || !flat.matrices) && (param.options.compute || !flat.fp32);
        }
      }
      good = good && !flat.users.empty() && std::vector(expected.begin(), expected.end()) == flat.users;
      for (auto const unit : flat.users) {
        used_by[unit].insert(f);
      }
    }
    for (auto const unit : d.units.ids()) {
      auto const flats = layout.flats_of(unit);
      good = good && std::set(flats.begin(), flats.end()) == used_by[unit] && flats.size() == used_by[unit].size();
    }
    CHECK(good);
    CHECK(layout.unit_count() == d.units.size());
  });
}

TEST_CASE("gradients complete from the last first use to the first") {
  for_every_layout([](Description const&, Layout const& layout) {
    auto const order = layout.completion_order();
    std::set<shard::FlatId> const listed(order.begin(), order.end());
    std::set<shard::FlatId> trainable;
    for (auto const f : layout.flats().ids()) {
      if (!layout.flats()[f].trainable.params.empty()) {
        trainable.insert(f);
      }
    }
    CHECK(listed == trainable);
    CHECK(order.size() == trainable.size());
    CHECK(std::ranges::is_sorted(order, std::ranges::greater{},
                                 [&](shard::FlatId flat) { return layout.flats()[flat].users.front(); }));
  });
}

TEST_CASE("uses that are summed apart have gradients of their own, cut as the parameter is") {
  int divided = 0;
  for_every_layout([&](Description const& d, Layout const& together) {
    Layout const apart{d,
                       together.world(),
                       {.tied = TiedGradients::apart,
                        .matrices_apart = std::ranges::any_of(together.flats(), &FlatUnit::matrices),
                        .fp32_apart = std::ranges::any_of(together.flats(), &FlatUnit::fp32)}};
    auto const names = [](Layout const& layout) {
      std::vector<std::string> all;
      for (auto const flat : layout.update_order()) {
        all.push_back(fmt::format("{} {}", layout.flats()[flat].name, layout.flats()[flat].trainable.shard_count));
      }
      return all;
    };
    CHECK(names(apart) == names(together));
    CHECK(together.ties().empty());
    CHECK(together.gradient_count() == d.params.size());
    std::set<shard::GradientId> gradients;
    std::size_t contributions = 0;
    bool good = true;
    auto const see = [&](UnitId unit, ParamId param) {
      if (d.params[param].options.trainable) {
        auto const at = apart.gradient(unit, param);
        auto const& placed = apart.flats()[at.flat].gradients().params;
        auto const of = std::ranges::find(placed, at.gradient, &shard::Placed::gradient);
        good = good && of != placed.end() && of->param == param && of->offset == at.in_part &&
               apart.flats()[at.flat].writers == std::vector{unit};
        gradients.insert(at.gradient);
        ++contributions;
      }
    };
    for (auto const unit : d.units.ids()) {
      std::ranges::for_each(d.units[unit].params, [&](ParamId param) { see(unit, param); });
      std::ranges::for_each(d.units[unit].ties, [&](ParamId param) { see(unit, param); });
    }
    CHECK(good);
    CHECK(gradients.size() == contributions);
    for (auto const& tie : apart.ties()) {
      auto const& part = apart.flats()[tie.flat].trainable;
      good = good && tie.stages == std::vector{0} && tie.uses.front().flat == tie.flat &&
             tie.uses.size() == apart.flats()[tie.flat].users.size();
      for (std::size_t use = 0; use < tie.uses.size(); ++use) {
        auto const& flat = apart.flats()[tie.uses[use].flat];
        good = good && flat.writers == std::vector{apart.flats()[tie.flat].users[use]} &&
               flat.gradients().shard_count == part.shard_count && flat.gradients().padding == part.padding;
        divided += use > 0 ? 1 : 0;
      }
    }
    CHECK(good);
    auto const order = apart.completion_order();
    CHECK(std::ranges::is_sorted(order, std::ranges::greater{},
                                 [&](shard::FlatId flat) { return apart.flats()[flat].writers.front(); }));
    CHECK(std::ranges::count_if(apart.flats(), [](FlatUnit const& flat) {
            return flat.gradients().padded_count > 0;
          }) == std::ssize(order));
  });
  CHECK(divided > 100);
}

TEST_CASE("segments of all slices are the parameters' elements, once, with their factors") {
  for_every_layout([](Description const& d, Layout const& layout) {
    bool good = true;
    for_every_part(layout, [&](Part const& part) {
      // The number of elements in segments by parameter, over all slices.
      std::vector<std::vector<Range>> seen(part.params.size());
      auto const collect = [&](Range range) {
        std::int64_t end = 0;
        for (auto const& segment : shard::segments(d, part, range)) {
          good = good && end <= segment.begin && segment.begin < segment.end && segment.end <= range.count();
          end = segment.end;
          Range const in_part{segment.begin + range.begin, segment.end + range.begin};
          auto const holds = [&](shard::Placed const& at) {
            return at.offset <= in_part.begin && in_part.end <= at.offset + at.count;
          };
          auto const at = std::ranges::find_if(part.params, holds);
          if (at == part.params.end()) {
            good = false;
            continue;
          }
          auto const& options = d.params[at->param].options;
          good = good && segment.learning_rate_factor == options.learning_rate_factor &&
                 segment.weight_decay_factor == options.weight_decay_factor;
          seen[static_cast<std::size_t>(at - part.params.begin())].push_back(
              {in_part.begin - at->offset, in_part.end - at->offset});
        }
      };
      auto const complete = [&] {
        for (std::size_t i = 0; i < seen.size(); ++i) {
          good = good && tile(seen[i], part.params[i].count);
          seen[i].clear();
        }
      };
      for (int rank = 0; rank < layout.world(); ++rank) {
        collect(part.slice(rank));
      }
      complete();
      collect({0, part.padded_count});
      complete();
    });
    CHECK(good);
  });
}

TEST_CASE("a parameter of one element in a large world leaves all slices but one empty") {
  Model model;
  auto const unit = model.unit("u");
  static_cast<void>(model.param(unit, "w", {1}, Constant{1}));
  Layout const layout{model.description(), 1024};
  auto const& part = layout.flats().front().trainable;
  CHECK(part.shard_count == 128);
  CHECK(part.padded_count == 1024 * 128);
  CHECK(part.padding == std::vector<Range>{{1, 1024 * 128}});
  CHECK(layout.flats().front().frozen.padded_count == 0);
  for (int rank = 0; rank < 1024; ++rank) {
    CHECK(shard::segments(model.description(), part, part.slice(rank)).size() == (rank == 0 ? 1U : 0U));
  }
}

TEST_CASE("small parameters are flat units of their own, by DeepSpeed's rule, and are not gathered") {
  Model model;
  auto const first = model.unit("first"), second = model.unit("second");
  static_cast<void>(model.param(first, "large", {1000}, Constant{1}));
  static_cast<void>(model.param(first, "small", {10}, Constant{1}));
  static_cast<void>(model.param(first, "fixed", {5}, Constant{1}, {.trainable = false}));
  auto const shared = model.param(first, "shared", {20}, Constant{1});
  static_cast<void>(model.param(second, "last", {10}, Constant{1}));
  model.tie(second, shared);
  auto const names_of = [&](std::int64_t param_count, std::int64_t model_count) {
    Layout const layout{model.description(), 3, {.persistence = {param_count, model_count}}};
    std::vector<std::string> names;
    for (auto const& flat : layout.flats()) {
      names.push_back(fmt::format("{} {} {}", flat.name, flat.used_count(), flat.gathered_count()));
      CHECK(flat.gathered_count() == (flat.persistent ? 0 : flat.padded_count()));
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(names_of(0, 1000) == Names{"first 1015 1536", "shared 20 384", "second 10 384"});
  CHECK(names_of(10, 1000) ==
        Names{"first 1000 1152", "first (persistent) 15 0", "shared 20 384", "second (persistent) 10 0"});
  CHECK(names_of(20, 1000) ==
        Names{"first 1000 1152", "first (persistent) 15 0", "shared 20 0", "second (persistent) 10 0"});
  // Parameters that would exceed the model's threshold are skipped, and later ones may fit.
  CHECK(names_of(20, 25) ==
        Names{"first 1000 1152", "first (persistent) 15 0", "shared 20 384", "second (persistent) 10 0"});
  CHECK(names_of(1000, 10) == Names{"first 1005 1536", "first (persistent) 10 0", "shared 20 384", "second 10 384"});
  Layout const layout{model.description(), 3, {.persistence = {20, 1000}}};
  CHECK(layout.flats_of(UnitId{0}).size() == 3);
  CHECK(layout.flats_of(UnitId{1}).size() == 2);
  CHECK(layout.location(ParamId{1}).flat == layout.location(ParamId{2}).flat);
  CHECK(layout.location(ParamId{1}).flat != layout.location(ParamId{0}).flat);
  CHECK(layout.flats()[layout.location(ParamId{4}).flat].persistent);
}

TEST_CASE("parameters in fp32 are flat units of their own in a model of 16 bits") {
  Model model;
  auto const first = model.unit("first"), second = model.unit("second");
  static_cast<void>(model.param(first, "w", {40}, Constant{1}));
  static_cast<void>(model.param(first, "norm", {30}, Constant{1}, {.compute = Dtype::fp32}));
  static_cast<void>(model.param(first, "frozen", {8}, Constant{1}, {.trainable = false, .compute = Dtype::fp32}));
  auto const shared = model.param(first, "shared", {20}, Constant{1}, {.compute = Dtype::fp32});
  static_cast<void>(model.param(second, "router", {10}, Constant{1}, {.compute = Dtype::fp32}));
  model.tie(second, shared);
  auto const names_of = [&](LayoutOptions const& options) {
    std::string names;
    Layout const layout{model.description(), 3, options};
    for (auto const& flat : layout.flats()) {
      names += fmt::format("{} {}{}; ", flat.name, flat.used_count(), flat.fp32 ? " fp32" : "");
    }
    return names;
  };
  CHECK(names_of({}) == "first 78; shared 20; second 10; ");
  CHECK(names_of({.fp32_apart = true}) == "first 40; first (fp32) 38 fp32; shared 20 fp32; second (fp32) 10 fp32; ");
  CHECK(names_of({.persistence = {10, 1000}, .fp32_apart = true}) ==
        "first 40; first (fp32) 30 fp32; first (persistent, fp32) 8 fp32; shared 20 fp32; second (persistent, fp32) "
        "10 fp32; ");
  CHECK(names_of({.tied = TiedGradients::apart, .fp32_apart = true}) ==
        "first 40; first (fp32) 38 fp32; shared 20 fp32; second (fp32) 10 fp32; shared (second) 0 fp32; ");
}

TEST_CASE("matrices are flat units of their own if they have a rule of their own") {
  Model model;
  auto const first = model.unit("first"), second = model.unit("second");
  static_cast<void>(model.param(first, "w", {40, 30}, Constant{1}, {.matrix = true}));
  static_cast<void>(model.param(first, "bias", {30}, Constant{1}));
  static_cast<void>(model.param(first, "small", {4, 2}, Constant{1}, {.matrix = true}));
  auto const shared = model.param(first, "shared", {20, 2}, Constant{1}, {.matrix = true});
  static_cast<void>(model.param(second, "last", {10, 3}, Constant{1}, {.matrix = true}));
  model.tie(second, shared);
  using Names = std::vector<std::string>;
  auto const names_of = [](Layout const& layout) {
    Names names;
    for (auto const& flat : layout.flats()) {
      names.push_back(fmt::format("{} {}{}", flat.name, flat.used_count(), flat.matrices ? " m" : ""));
    }
    return names;
  };
  auto const layout = [&](std::int64_t persistent, bool apart) {
    return Layout{model.description(), 3, {.persistence = {persistent, 1000}, .matrices_apart = apart}};
  };
  CHECK(names_of(layout(0, false)) == Names{"first 1238", "shared 40", "second 30"});
  CHECK(names_of(layout(0, true)) ==
        Names{"first 30", "first (matrices) 1208 m", "shared 40 m", "second (matrices) 30 m"});
  CHECK(names_of(layout(10, true)) == Names{"first 30", "first (matrices) 1200 m", "first (matrices, persistent) 8 m",
                                            "shared 40 m", "second (matrices) 30 m"});
  Settings settings;
  settings.update.rule = optim::Adam{};
  auto const apart = layout(0, true);
  auto const rules = [&] {
    std::string names;
    for (auto const& flat : apart.flats()) {
      names += optim::name_of(shard::update_of(flat, settings).rule);
      names += ' ';
    }
    return names;
  };
  CHECK(rules() == "AdamW AdamW AdamW AdamW ");
  settings.matrix_update = optim::Update{.rule = optim::Lion{}};
  CHECK(rules() == "AdamW Lion Lion Lion ");
}

TEST_CASE("a layout for nobody is refused") {
  Model const model;
  CHECK_THAT(thrown<ContractError>([&] {
               return Layout{model.description(), 0};
             }),
             Catch::Contains("a layout for 0 ranks"));
  CHECK(Layout{model.description(), 3}.flats().empty());
}

}  // namespace zeroth::testing
