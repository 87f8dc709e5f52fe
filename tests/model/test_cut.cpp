// SPDX-License-Identifier: Apache-2.0
/// Tensor ranks have every element of a cut parameter once, and initial values are those of the whole parameter.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {
namespace {

using Catch::Matchers::Contains;
using model::CutPart;

std::int64_t product(std::span<std::int64_t const> extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, [](auto a, auto b) { return a * b; });
}

/// The positions in the whole of the elements of tensor rank `part.index`; below 0: padding. Uses its own arithmetic:
/// it iterates over the indices of all dimensions.
std::vector<std::int64_t> walked(std::span<std::int64_t const> whole, Cut const& cut, TensorPart part) {
  auto const dim = static_cast<std::size_t>(cut.dim);
  auto const sections = cut.sections.empty() ? std::vector{whole[dim]} : cut.sections;
  std::vector<std::int64_t> along;  // index in the whole, by index along the part
  std::int64_t begin = 0;
  for (auto const section : sections) {
    auto size = (section + part.of - 1) / part.of;
    while (part.of > 1 && cut.multiple > 0 && size % cut.multiple != 0) {
      ++size;
    }
    for (std::int64_t i = 0; i < size; ++i) {
      auto const in_section = part.index * size + i;
      along.push_back(in_section < section ? begin + in_section : -1);
    }
    begin += section;
  }
  std::vector<std::int64_t> result;
  for (std::int64_t before = 0; before < product(whole.first(dim)); ++before) {
    for (auto const index : along) {
      for (std::int64_t behind = 0; behind < product(whole.subspan(dim + 1)); ++behind) {
        result.push_back(index < 0 ? -1 : (before * whole[dim] + index) * product(whole.subspan(dim + 1)) + behind);
      }
    }
  }
  return result;
}

/// The same positions by runs.
std::vector<std::int64_t> by_runs(CutPart const& part, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> result;
  part.each_run(first, count, [&](CutPart::Run const& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      result.push_back(run.is_padding() ? -1 : run.in_whole + i);
    }
  });
  return result;
}

/// All ways to write `extent` as a sum of at most `most` numbers above 0, in order.
std::vector<std::vector<std::int64_t>> sums_to(std::int64_t extent, int most) {
  if (extent == 0) {
    return {{}};
  }
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 1; most > 0 && first <= extent; ++first) {
    for (auto rest : sums_to(extent - first, most - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(rest);
    }
  }
  return all;
}

struct Case {
  std::vector<std::int64_t> shape;
  Cut cut;
  int of;
};

/// All cuts, valid or not, of shapes up to 5 x 7 in up to 5 sections for up to 5 ranks.
template <class F>
void each_case(F const& check) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::int64_t rows = 1; rows <= 5; ++rows) {
    for (std::int64_t columns = 1; columns <= 7; ++columns) {
      shapes.push_back({rows, columns});
    }
    shapes.push_back({rows});
    shapes.push_back({2, rows, 3});
  }
  for (auto const& shape : shapes) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      for (auto const& sections : sums_to(shape[static_cast<std::size_t>(dim)], 5)) {
        for (std::int64_t multiple = 0; multiple <= 3; ++multiple) {
          for (int of = 1; of <= 5; ++of) {
            check(Case{shape, {dim, sections, multiple}, of});
          }
        }
      }
    }
  }
}

bool can_be_made(Case const& each) {
  return each.cut.multiple > 0 ||
         std::ranges::all_of(each.cut.sections, [&](std::int64_t section) { return section % each.of == 0; });
}

}  // namespace

TEST_CASE("the parts of every cut cover the whole once, and their runs give the elements' positions") {
  int made = 0;
  int padded = 0;
  int refused = 0;
  int wrong = 0;
  each_case([&](Case const& each) {
    if (!can_be_made(each)) {
      ++refused;
      auto const refusal = thrown<ContractError>([&] { CutPart("w", each.shape, each.cut, {0, each.of}); });
      wrong += refusal.empty() ? 1 : 0;
      return;
    }
    std::vector<int> times(static_cast<std::size_t>(product(each.shape)), 0);
    bool good = true;
    for (int index = 0; index < each.of; ++index) {
      CutPart const part{"w", each.shape, each.cut, {index, each.of}};
      auto const expected = walked(each.shape, each.cut, {index, each.of});
      bool const pads = std::ranges::find(expected, -1) != expected.end();
      good = good && part.count() == std::ssize(expected) && product(part.shape()) == part.count() &&
             part.whole_count() == product(each.shape) && part.has_padding() == pads &&
             by_runs(part, 0, part.count()) == expected;
      for (std::int64_t first = 0; first < part.count(); ++first) {  // from the middle of runs
        auto const count = std::min<std::int64_t>(3, part.count() - first);
        auto const begin = expected.begin() + first;
        good = good && by_runs(part, first, count) == std::vector<std::int64_t>(begin, begin + count);
      }
      for (auto const element : expected) {
        if (element >= 0) {
          ++times[static_cast<std::size_t>(element)];
        }
      }
      padded += pads ? 1 : 0;
    }
    good = good && std::ranges::all_of(times, [](int count) { return count == 1; });
    wrong += good ? 0 : 1;
    ++made;
  });
  CHECK(wrong == 0);
  CHECK(made > 10'000);
  CHECK(padded > 10'000);
  CHECK(refused > 3000);
}

TEST_CASE("each element of a parameter is found in exactly one part") {
  int wrong = 0;
  each_case([&](Case const& each) {
    if (!can_be_made(each)) {
      return;
    }
    auto const count = product(each.shape);
    for (int index = 0; index < each.of; ++index) {
      CutPart const part{"w", each.shape, each.cut, {index, each.of}};
      auto const in_whole = walked(each.shape, each.cut, {index, each.of});
      std::vector<std::int64_t> expected(static_cast<std::size_t>(count), -1);
      for (std::size_t i = 0; i < in_whole.size(); ++i) {
        if (in_whole[i] >= 0) {
          expected[static_cast<std::size_t>(in_whole[i])] = static_cast<std::int64_t>(i);
        }
      }
      for (std::int64_t element = 0; element < count; ++element) {
        auto const run = part.run_of_whole(element);
        bool good = run.in_whole == element && run.count > 0 && element + run.count <= count;
        for (std::int64_t i = 0; good && i < run.count; ++i) {
          good = expected[static_cast<std::size_t>(element + i)] == (run.is_elsewhere() ? -1 : run.first + i);
        }
        wrong += good ? 0 : 1;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("parts of one cut map to parts of any other cut, with each element once and in order") {
  std::vector<Case> cases;
  each_case([&](Case const& each) {
    if (can_be_made(each)) {
      cases.push_back(each);
    }
  });
  std::mt19937 random{7};
  int compared = 0;
  int wrong = 0;
  while (compared < 20'000) {
    auto const& from = cases[random() % cases.size()];
    auto const& to = cases[random() % cases.size()];
    if (from.shape != to.shape) {
      continue;
    }
    ++compared;
    CutPart const held{"w", to.shape, to.cut, {static_cast<int>(random() % static_cast<unsigned>(to.of)), to.of}};
    auto const first = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(held.count()));
    auto const count = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(held.count() - first));
    std::vector<std::int64_t> got(static_cast<std::size_t>(count), -1);
    for (int index = 0; index < from.of; ++index) {
      CutPart const part{"w", from.shape, from.cut, {index, from.of}};
      auto const in_whole = by_runs(part, 0, part.count());
      std::int64_t end_in_held = first;
      std::int64_t end_in_part = 0;
      model::each_common_run(held, part, first, count,
                             [&](std::int64_t in_held, std::int64_t in_part, std::int64_t some) {
                               wrong += in_held >= end_in_held && in_part >= end_in_part && some > 0 ? 0 : 1;
                               end_in_held = in_held + some;
                               end_in_part = in_part + some;
                               for (std::int64_t i = 0; i < some; ++i) {
                                 auto& place = got[static_cast<std::size_t>(in_held - first + i)];
                                 wrong += place == -1 ? 0 : 1;
                                 place = in_whole[static_cast<std::size_t>(in_part + i)];
                               }
                             });
    }
    wrong += got == by_runs(held, first, count) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("parts have the initial values of the whole, and padding is 0") {
  auto const init = GENERATE(Init{Normal{0.5F, 1}}, Init{Uniform{-2, 3}}, Init{Constant{0.125F}},
                             Init{PerElement{[](std::int64_t i) { return static_cast<float>(i * i); }}},
                             Init{FromMemory{[](std::int64_t first, std::span<float> values) {
                               std::iota(values.begin(), values.end(), static_cast<float>(first));
                             }}});
  struct Of {
    std::int64_t rows, columns;
    Cut cut;
    int of;
  };
  for (auto const& each : {Of{37, 60, {1, {24, 12, 24}, 0}, 4}, Of{60, 37, {0, {}, 0}, 3}, Of{65, 40, {0, {}, 16}, 3},
                           Of{1, 3000, {1, {1000, 2000}, 0}, 2}}) {
    auto const rows = each.rows;
    auto const columns = each.columns;
    auto const& cut = each.cut;
    auto const of = each.of;
    auto const make = [&](TensorPart part) {
      Model model{7, part};
      auto const unit = model.unit("u");
      static_cast<void>(model.param(unit, "w", {rows, columns}, init, {.cut = cut}));
      return model;
    };
    auto const whole = make({});
    std::vector<float> all(static_cast<std::size_t>(rows * columns));
    model::initialise(7, whole.description().params[ParamId{}], 0, all);
    for (int index = 0; index < of; ++index) {
      auto const part = make({index, of});
      auto const& param = part.description().params[ParamId{}];
      std::vector<float> mine(static_cast<std::size_t>(param.count), -99);
      for (std::int64_t first = 0; first < param.count; first += 97) {  // in pieces, like ranks
        model::initialise(
            7, param, first,
            std::span{mine}.subspan(static_cast<std::size_t>(first),
                                    static_cast<std::size_t>(std::min<std::int64_t>(97, param.count - first))));
      }
      auto const where = walked(param.global_shape(), cut, {index, of});
      std::vector<float> expected;
      for (auto const element : where) {
        expected.push_back(element < 0 ? 0.0F : all[static_cast<std::size_t>(element)]);
      }
      CHECK(mine == expected);
    }
  }
}

TEST_CASE("a divided parameter has the shape of the rank's part, and its global shape") {
  Model model{1, {1, 4}};
  auto const unit = model.unit("u");
  auto const cut = model.param(unit, "cut", {8, 12}, Constant{1}, {.cut = {{.dim = 1, .sections = {4, 8}}}});
  auto const whole = model.param(unit, "whole", {8, 12}, Constant{1}, {.partial = true});
  auto const padded = model.param(unit, "padded", {65, 12}, Constant{1}, {.cut = {{.dim = 0, .multiple = 8}}});
  CHECK(cut.shape() == Shape<2>{8, 3});
  CHECK(cut.global_shape() == Shape<2>{8, 12});
  CHECK(whole.shape() == Shape<2>{8, 12});
  CHECK(padded.shape() == Shape<2>{24, 12});
  CHECK(padded.global_shape() == Shape<2>{65, 12});
  CHECK(model.parameter_count() == 8 * 3 + 8 * 12 + 24 * 12);
  CHECK(model.tensor_part() == TensorPart{1, 4});
  auto const any = model.param_at(0);
  CHECK(any.shape() == std::vector<std::int64_t>{8, 3});
  CHECK(any.global_shape() == std::vector<std::int64_t>{8, 12});

  Model alone{1};
  auto const uncut =
      alone.param(alone.unit("u"), "padded", {65, 12}, Constant{1}, {.cut = {{.dim = 0, .multiple = 8}}});
  CHECK(uncut.shape() == Shape<2>{65, 12});
  CHECK(uncut.global_shape() == Shape<2>{65, 12});
}

TEST_CASE("tensor ranks have one fingerprint, which depends on how parameters are divided") {
  auto const of = [](TensorPart part, std::optional<Cut> const& cut, bool partial) {
    Model model{3, part};
    auto const unit = model.unit("u");
    static_cast<void>(model.param(unit, "w", {8, 12}, Normal{1}, {.cut = cut}));
    static_cast<void>(model.param(unit, "p", {12}, PerElement{[](std::int64_t i) { return static_cast<float>(i); }},
                                  {.partial = partial}));
    return model::fingerprint(model.description());
  };
  auto const first = of({0, 4}, Cut{1, {4, 8}}, false);
  CHECK(of({3, 4}, Cut{1, {4, 8}}, false) == first);
  CHECK(of({1, 2}, Cut{1, {4, 8}}, false) == first);
  CHECK(of({}, Cut{1, {4, 8}}, false) == first);
  CHECK(of({0, 4}, Cut{1, {8, 4}}, false) != first);
  CHECK(of({0, 4}, Cut{0, {}}, false) != first);
  CHECK(of({0, 4}, Cut{1, {4, 8}}, true) != first);
  CHECK(of({0, 4}, std::nullopt, false) != first);
}

TEST_CASE("impossible cuts are rejected") {
  auto const refusal = [](std::vector<std::int64_t> const& shape, ParamOptions const& options, TensorPart part) {
    return thrown<ContractError>([&] {
      Model model{1, part};
      auto const unit = model.unit("u");
      static_cast<void>(model.param(unit, "w", std::span<std::int64_t const>{shape}, Constant{0}, options));
    });
  };
  CHECK_THAT(refusal({8, 10}, {.cut = {{.dim = 1}}}, {0, 4}),
             Contains("parameter \"w\": its cut along dimension 1 has a section of 10, which 4 tensor ranks do not "
                      "divide; nearest that do: 2 and 5"));
  CHECK_THAT(refusal({8, 10}, {.cut = {{.dim = 1, .sections = {4, 6}}}}, {0, 4}),
             Contains("has a section of 6, which 4 tensor ranks do not divide; nearest that do: 2"));
  CHECK_THAT(
      refusal({8, 10}, {.cut = {{.dim = 2}}}, {}),
      Contains(
          "parameter \"w\" of shape [8, 10] is cut along dimension 2; allowed: its own dimensions, counted from 0"));
  CHECK_THAT(refusal({8, 10}, {.cut = {{.dim = 1, .sections = {4, 4}}}}, {}),
             Contains("the sections of its cut are 4 + 4, which is 8; their sum is the extent of dimension 1, 10"));
  CHECK_THAT(refusal({8, 10}, {.cut = {{.dim = 1, .sections = {4, 8}}}}, {}),
             Contains("the sections of its cut are 4 + 8; each must be positive, and their sum is the extent of "
                      "dimension 1, 10"));
  CHECK_THAT(refusal({8, 10}, {.cut = {{.dim = 1, .multiple = -1}}}, {}),
             Contains("the multiple of its cut is -1; allowed: 0 to 1048576"));
  CHECK_THAT(refusal({8, 10}, {.cut = {{.dim = 1}}, .partial = true}, {}),
             Contains("parameter \"w\" is both cut and partial"));
  CHECK_THAT(thrown<ContractError>([] {
               Model(1, {2, 2});
             }),
             Contains("a model for tensor rank 2 of 2; allowed: ranks from 0 to one less than their number"));
}

}  // namespace zeroth::testing
