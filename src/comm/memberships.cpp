// SPDX-License-Identifier: Apache-2.0
#include "comm/memberships.hpp"

#include <fmt/format.h>

#include "comm/describe.hpp"

namespace zeroth::comm {

void Memberships::add(Group const& whole, std::span<SplitRequest const> requests, Group const& part) {
  if (part.job_ranks.empty()) {
    return;
  }
  std::vector<int> colors(static_cast<std::size_t>(whole.job_world), -1);
  for (int rank = 0; rank < whole.world(); ++rank) {
    colors[static_cast<std::size_t>(whole.job_rank(rank))] = requests[static_cast<std::size_t>(rank)].color;
  }
  std::scoped_lock const lock{mutex_};
  splits_.push_back({part.id, part.name, std::move(colors)});
}

void Memberships::remove(std::uint64_t part) {
  std::scoped_lock const lock{mutex_};
  std::erase_if(splits_, [part](Split const& each) { return each.part == part; });
}

std::string Memberships::describe(int job_rank) const {
  std::scoped_lock const lock{mutex_};
  std::string words;
  for (auto const& split : splits_) {
    int const color = split.colors[static_cast<std::size_t>(job_rank)];
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < split.colors.size(); ++rank) {
      if (split.colors[rank] == color) {
        ranks.push_back(static_cast<int>(rank));
      }
    }
    if (color >= 0 && ranks.size() > 1 && ranks.size() < split.colors.size()) {
      words += fmt::format("{}'{}': {}", words.empty() ? "" : "; ", split.name, describe_ranks(std::move(ranks)));
    }
  }
  return words.empty() ? words : fmt::format(" (of {})", words);
}

}  // namespace zeroth::comm
