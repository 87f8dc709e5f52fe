// SPDX-License-Identifier: Apache-2.0
/// The ranks of a communicator, and the arithmetic of a split.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::comm {

struct Group {
  std::uint64_t id = 0;  ///< The same on all its ranks, and unique among the communicators of the job.
  std::string name;
  std::vector<int> job_ranks;  ///< [world] Rank in the job of each rank.
  int rank = 0;                ///< The rank in it of the process that holds this.
  int job_world = 0;           ///< Ranks of the job.

  [[nodiscard]] int world() const noexcept { return static_cast<int>(job_ranks.size()); }
  [[nodiscard]] int job_rank(int rank_here) const noexcept { return job_ranks[static_cast<std::size_t>(rank_here)]; }
  /// The name of one of its ranks in messages: see describe_rank() of comm/describe.hpp.
  [[nodiscard]] std::string describe_rank(int rank_here) const;
};

/// All ranks, "world", of the process's job number `job`.
[[nodiscard]] Group whole_job(std::uint64_t job, int rank, int world);

/// Marks the transaction of a split.
constexpr std::string_view split_purpose = "split";

/// The arguments of a rank's split.
struct SplitRequest {
  std::int32_t color = 0, key = 0;
};
/// The ranks that gave `color`, ordered by key, then by rank.
[[nodiscard]] std::vector<int> ranks_of_part(std::span<SplitRequest const> requests, int color);
/// The part of `group` that this rank belongs to after split number `split` of the group, from 1, with `requests`
/// [world]. Without ranks if its color is negative.
[[nodiscard]] Group part_of(Group const& group, std::uint64_t split, std::span<SplitRequest const> requests,
                            std::string const& name);
/// The group `id` of the `ranks` of `whole`, this rank's among them, in their order.
[[nodiscard]] Group group_of(Group const& whole, std::uint64_t id, std::span<int const> ranks, std::string const& name);
/// The requests of a split that makes such a group, [whole.world()], for Memberships.
[[nodiscard]] std::vector<SplitRequest> requests_for(Group const& whole, std::span<int const> ranks);

}  // namespace zeroth::comm
