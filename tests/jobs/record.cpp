// SPDX-License-Identifier: Apache-2.0
#include "jobs/record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <map>

namespace zeroth::testing::jobs {
namespace {

/// NaN equals itself, whatever its payload.
std::uint32_t bits_of_float(float value) {
  return std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value);
}

std::string in_words(std::uint32_t bits) { return fmt::format("{:#010x} ({})", bits, std::bit_cast<float>(bits)); }

}  // namespace

void Record::add(std::string name, std::span<float const> values) {
  std::vector<std::uint32_t> bits(values.size());
  std::ranges::transform(values, bits.begin(), bits_of_float);
  shown_.emplace_back(std::move(name), std::move(bits));
}

void Record::add(std::string name, std::span<double const> values) {
  std::vector<std::uint32_t> bits;
  for (double const value : values) {
    auto const both = std::isnan(value) ? 0x7FF8000000000000ULL : std::bit_cast<std::uint64_t>(value);
    bits.push_back(static_cast<std::uint32_t>(both));
    bits.push_back(static_cast<std::uint32_t>(both >> 32U));
  }
  shown_.emplace_back(std::move(name), std::move(bits));
}

void Record::add_bytes(std::string name, std::span<std::byte const> bytes) {
  std::vector<std::uint32_t> bits((bytes.size() + 3) / 4);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bits[i / 4] |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * (i % 4));
  }
  shown_.emplace_back(std::move(name), std::move(bits));
}

void Record::count(std::string name, int stage, std::span<std::int64_t const> numbers) {
  counted_.emplace_back(std::move(name), Counted{stage, {numbers.begin(), numbers.end()}});
}

std::string Record::first_other_count(Record const& rank) const {
  std::map<std::string, Counted> const theirs{rank.counted_.begin(), rank.counted_.end()};
  for (auto const& [name, counted] : counted_) {
    auto const found = theirs.find(name);
    if (found == theirs.end()) {
      return fmt::format("{}: another rank has not counted that", name);
    }
    auto const& [stage, numbers] = found->second;
    if (stage == counted.stage && numbers != counted.numbers) {
      return fmt::format("{}: {}, another rank has {}", name, fmt::join(counted.numbers, ", "),
                         fmt::join(numbers, ", "));
    }
  }
  return !has_all_ || counted_.size() == rank.counted_.size() ? "" : "ranks have counted other steps";
}

std::string Record::first_difference(Record const& reference) const {
  if (!problems_.empty()) {
    return problems_.front();
  }
  std::map<std::string, std::vector<std::uint32_t> const*> expected;
  for (auto const& [name, bits] : reference.shown_) {
    expected[name] = &bits;
  }
  std::set<std::string> seen;
  for (auto const& [name, bits] : shown_) {
    auto const found = expected.find(name);
    if (found == expected.end()) {
      return fmt::format("{}: the reference has none", name);
    }
    auto const& theirs = *found->second;
    if (bits.size() != theirs.size()) {
      return fmt::format("{}: {} words, the reference has {}", name, bits.size(), theirs.size());
    }
    auto const at = std::ranges::mismatch(bits, theirs).in1 - bits.begin();
    if (auto const i = static_cast<std::size_t>(at); i < bits.size()) {
      return fmt::format("{}, word {} of {}: {}, the reference has {}", name, i, bits.size(), in_words(bits[i]),
                         in_words(theirs[i]));
    }
    seen.insert(name);
  }
  for (auto const& [name, bits] : reference.shown_) {
    if (has_all_ && !seen.contains(name) && !left_out_.contains(name)) {
      return fmt::format("{}: the reference alone has it", name);
    }
  }
  return {};
}

}  // namespace zeroth::testing::jobs
