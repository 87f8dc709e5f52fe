// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/machines.hpp"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace zeroth::comm {

Job::Machine machine_among(std::vector<std::string> const& ids, int rank) {
  auto const& mine = ids[static_cast<std::size_t>(rank)];
  std::unordered_map<std::string, int> found;  // by order of first ranks
  for (auto const& id : ids) {
    found.emplace(id, static_cast<int>(found.size()));
  }
  return {.index = found.at(mine),
          .count = static_cast<int>(found.size()),
          .rank = static_cast<int>(std::count(ids.begin(), ids.begin() + rank, mine)),
          .ranks = static_cast<int>(std::ranges::count(ids, mine))};
}

}  // namespace zeroth::comm
