// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::checkpoint {

/// Open addressing with linear probing: restores of a model with 200,000 parameters spend their time here.
FoundByName::FoundByName(std::span<Space const> spaces) {
  std::size_t count = 0;
  for (auto const& space : spaces) {
    count += space.params.size();
  }
  slots_.resize(std::bit_ceil(2 * count + 1));
  entries_.reserve(count);
  hashes_.reserve(count);
  std::vector<std::uint32_t> entry_of;  // entry of each position, in the order of the spaces
  entry_of.reserve(count);
  std::vector<std::size_t> ends;  // end of each entry in positions_; at first the number of its positions
  ends.reserve(count);
  for (auto const& space : spaces) {
    for (auto const& param : space.params) {
      auto const hash = std::hash<std::string_view>{}(param.name);
      auto& slot = slots_[slot_of(param.name, hash)];
      if (slot == 0) {
        entries_.push_back({param.name, {}});
        hashes_.push_back(hash);
        ends.push_back(0);
        slot = static_cast<std::uint32_t>(entries_.size());
      }
      entry_of.push_back(slot - 1);
      ++ends[slot - 1];
    }
  }
  positions_.resize(count);
  std::size_t begin = 0;
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    entries_[entry].parts = {positions_.data() + begin, ends[entry]};
    begin += std::exchange(ends[entry], begin);
  }
  auto entry = entry_of.begin();
  for (std::size_t space = 0; space < spaces.size(); ++space) {
    for (std::size_t param = 0; param < spaces[space].params.size(); ++param) {
      positions_[ends[*entry++]++] = {space, param};
    }
  }
  for (std::size_t each = 0; each < entries_.size(); ++each) {
    std::span const parts{positions_.data() + (ends[each] - entries_[each].parts.size()), entries_[each].parts.size()};
    std::ranges::stable_sort(parts, {}, [&](Found const& at) { return spaces[at.space].params[at.param].index(); });
  }
}

std::span<Found const> FoundByName::find(std::string_view name) const noexcept {
  if (entries_.empty()) {
    return {};
  }
  auto const slot = slots_[slot_of(name, std::hash<std::string_view>{}(name))];
  return slot == 0 ? std::span<Found const>{} : entries_[slot - 1].parts;
}

std::size_t FoundByName::slot_of(std::string_view name, std::size_t hash) const noexcept {
  auto const mask = slots_.size() - 1;
  for (auto at = hash & mask;; at = (at + 1) & mask) {
    auto const slot = slots_[at];
    if (slot == 0 || (hashes_[slot - 1] == hash && entries_[slot - 1].name == name)) {
      return at;
    }
  }
}

}  // namespace zeroth::checkpoint
