// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "comm/describe.hpp"
#include "core/hash.hpp"

namespace zeroth::comm {

std::string Group::describe_rank(int rank_here) const {
  return comm::describe_rank(name, job_ranks, rank_here, job_world);
}

Group whole_job(std::uint64_t job, int rank, int world) {
  Group group{mix(0, job), "world", std::vector<int>(static_cast<std::size_t>(world)), rank, world};
  std::iota(group.job_ranks.begin(), group.job_ranks.end(), 0);
  return group;
}

std::vector<int> ranks_of_part(std::span<SplitRequest const> requests, int color) {
  std::vector<int> ranks;
  auto const request_of = [requests](int rank) -> SplitRequest const& {
    return requests[static_cast<std::size_t>(rank)];
  };
  for (int rank = 0; rank < static_cast<int>(requests.size()); ++rank) {
    if (request_of(rank).color == color) {
      ranks.push_back(rank);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return request_of(a).key < request_of(b).key; });
  return ranks;
}

/// Computes unique names of communicators without communication.
Group part_of(Group const& group, std::uint64_t split, std::span<SplitRequest const> requests,
              std::string const& name) {
  int const color = requests[static_cast<std::size_t>(group.rank)].color;
  if (color < 0) {
    return {};
  }
  auto const ranks = ranks_of_part(requests, color);
  Group part{mix(mix(group.id, split), static_cast<std::uint64_t>(color)), name, {}, 0, group.job_world};
  part.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), group.rank) - ranks.begin());
  std::transform(ranks.begin(), ranks.end(), std::back_inserter(part.job_ranks),
                 [&group](int rank) { return group.job_rank(rank); });
  return part;
}

Group group_of(Group const& whole, std::uint64_t id, std::span<int const> ranks, std::string const& name) {
  Group group{id, name, {}, 0, whole.job_world};
  group.rank = static_cast<int>(std::ranges::find(ranks, whole.rank) - ranks.begin());
  std::ranges::transform(ranks, std::back_inserter(group.job_ranks),
                         [&whole](int rank) { return whole.job_rank(rank); });
  return group;
}

std::vector<SplitRequest> requests_for(Group const& whole, std::span<int const> ranks) {
  std::vector<SplitRequest> requests(static_cast<std::size_t>(whole.world()), {-1, 0});
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    requests[static_cast<std::size_t>(ranks[i])] = {0, static_cast<std::int32_t>(i)};
  }
  return requests;
}

}  // namespace zeroth::comm
