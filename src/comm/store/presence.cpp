// SPDX-License-Identifier: Apache-2.0
#include "comm/store/presence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <map>
#include <utility>

#include "core/host_name.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

std::string machine_id() {
  std::string id;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> id;
  return id.empty() ? host_name() : id;
}

void check_able(std::vector<Presence> const& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (auto const& each = ranks[rank]; !each.problem.empty()) {
      throw ConfigError{fmt::format("rank {} on {} cannot take part: {}", rank, each.host, each.problem)};
    }
  }
}

void check_unshared(std::vector<Presence> const& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].device.empty()) {
      users[{ranks[rank].machine, ranks[rank].device}].push_back(rank);
    }
  }
  for (auto const& [place, sharers] : users) {
    if (sharers.size() > 1) {
      throw ConfigError{
          fmt::format("ranks {} would all compute on GPU {} of {} (NCCL counts its MIG slices as one GPU): {}",
                      fmt::join(sharers, ", "), place.second, ranks[sharers.front()].host, how_to_share)};
    }
  }
}

}  // namespace zeroth::comm
