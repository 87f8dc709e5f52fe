// SPDX-License-Identifier: Apache-2.0
#include "zeroth/model/cut.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

#include "zeroth/core/error.hpp"

namespace zeroth::model {
namespace {

constexpr std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) noexcept {
  return (count + multiple - 1) / multiple * multiple;
}

/// "2 and 5": the numbers of ranks nearest to `of` that divide every section.
std::string nearest_divisors(std::span<std::int64_t const> sections, int of) {
  auto const all = std::reduce(sections.begin(), sections.end(), std::int64_t{0}, std::gcd<std::int64_t, std::int64_t>);
  std::int64_t below = of;
  while (all % below != 0) {
    --below;
  }
  if (of > all) {
    return fmt::format("{}", below);
  }
  std::int64_t above = of;
  while (all % above != 0) {
    ++above;
  }
  return fmt::format("{} and {}", below, above);
}

/// The sections of `cut`. Throws ContractError if they are invalid.
std::vector<std::int64_t> sections_of(std::string const& name, std::span<std::int64_t const> whole, Cut const& cut,
                                      TensorPart part) {
  ZEROTH_EXPECTS(
      cut.dim >= 0 && cut.dim < std::ssize(whole),
      fmt::format(
          "parameter \"{}\" of shape [{}] is cut along dimension {}; allowed: its own dimensions, counted from 0", name,
          fmt::join(whole, ", "), cut.dim));
  ZEROTH_EXPECTS(cut.multiple >= 0 && cut.multiple <= largest_multiple,
                 fmt::format("parameter \"{}\": the multiple of its cut is {}; allowed: 0 to {}", name, cut.multiple,
                             largest_multiple));
  auto const extent = whole[static_cast<std::size_t>(cut.dim)];
  auto sections = cut.sections.empty() ? std::vector{extent} : cut.sections;
  std::int64_t sum = 0;
  for (auto const section : sections) {
    ZEROTH_EXPECTS(section > 0 && section <= extent - sum,
                   fmt::format("parameter \"{}\": the sections of its cut are {}; each must be positive, and their sum "
                               "is the extent of dimension {}, {}",
                               name, fmt::join(sections, " + "), cut.dim, extent));
    sum += section;
  }
  ZEROTH_EXPECTS(
      sum == extent,
      fmt::format("parameter \"{}\": the sections of its cut are {}, which is {}; their sum is the extent of "
                  "dimension {}, {}",
                  name, fmt::join(sections, " + "), sum, cut.dim, extent));
  for (auto const section : sections) {
    ZEROTH_EXPECTS(
        cut.multiple > 0 || section % part.of == 0,
        fmt::format("parameter \"{}\": its cut along dimension {} has a section of {}, which {} tensor ranks "
                    "do not divide; nearest that do: {}",
                    name, cut.dim, section, part.of, nearest_divisors(sections, part.of)));
  }
  return sections;
}

}  // namespace

CutPart::CutPart(std::string const& name, std::span<std::int64_t const> whole, Cut const& cut, TensorPart part)
    : shape_(whole.begin(), whole.end()), whole_shape_{shape_} {
  auto const sections = sections_of(name, whole, cut, part);
  auto const dim = static_cast<std::size_t>(cut.dim);
  auto const product = [](std::span<std::int64_t const> extents) {
    return std::reduce(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies{});
  };
  outer_ = product(whole.first(dim));
  inner_ = product(whole.subspan(dim + 1));
  for (auto const section : sections) {
    auto const even = (section + part.of - 1) / part.of;
    auto const padded = cut.multiple > 0 && part.of > 1 ? rounded_up(even, cut.multiple) : even;
    auto const begin = std::min(part.index * padded, section);
    auto const count = std::min(padded, section - begin);
    sections_.push_back({extent_, whole_extent_ + begin, count, padded});
    extent_ += padded;
    whole_extent_ += section;
    has_padding_ = has_padding_ || count < padded;
  }
  shape_[dim] = extent_;
}

CutPart::Run CutPart::run_from(std::int64_t element) const noexcept {
  auto const row = element / (extent_ * inner_);
  auto const in_row = element % (extent_ * inner_);
  auto const& section = *std::prev(std::ranges::upper_bound(sections_, in_row / inner_, {}, &Section::in_part));
  auto const at = in_row - section.in_part * inner_;
  auto const left = section.count * inner_ - at;
  if (left <= 0) {
    return {element, -1, section.padded * inner_ - at};
  }
  return {element, (row * whole_extent_ + section.in_whole) * inner_ + at, left};
}

CutPart::Run CutPart::run_of_whole(std::int64_t element) const noexcept {
  auto const row = element / (whole_extent_ * inner_);
  auto const in_row = element % (whole_extent_ * inner_);
  auto const next = std::ranges::upper_bound(sections_, in_row / inner_, {}, &Section::in_whole);
  if (next != sections_.begin()) {
    auto const& section = *std::prev(next);
    auto const at = in_row - section.in_whole * inner_;
    if (auto const left = section.count * inner_ - at; left > 0) {
      return {(row * extent_ + section.in_part) * inner_ + at, element, left};
    }
  }
  auto const end = next == sections_.end() ? whole_extent_ : next->in_whole;
  return {-1, element, end * inner_ - in_row};
}

}  // namespace zeroth::model
