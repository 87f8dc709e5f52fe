// SPDX-License-Identifier: Apache-2.0
/// Descriptions of collectives, the same in all messages.
#pragma once
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// "forward of unit 'block 3'", "step", or the unit alone if there is no purpose: the program's own names, without
/// control characters for terminals.
[[nodiscard]] std::string purpose_and_unit(std::string_view purpose, std::string_view unit);

/// "all_gather (forward of unit 'block 3', 4096 bf16)", "broadcast (step, 1 fp32, root 2)". The root, or the partner of
/// a message, is given as a rank of the job; `job_ranks` are those of the communicator. An invalid peer is left out.
[[nodiscard]] std::string describe(Label const& label, Collective const& collective, std::span<int const> job_ranks);
/// "1.25 s"; in milliseconds if seconds would be zero.
[[nodiscard]] std::string describe(std::chrono::nanoseconds duration);
/// "ranks 4 to 7", "ranks 1, 9, 17, ..., 1017": ranks of a job, in order.
[[nodiscard]] std::string describe_ranks(std::vector<int> job_ranks);
/// Rank `rank` of communicator `name`, which has `job_ranks` of a job of `job_world`: "rank 3", or "rank 5 (of
/// 'gather-group': ranks 4 to 7)" if it lacks some ranks of the job.
[[nodiscard]] std::string describe_rank(std::string const& name, std::vector<int> const& job_ranks, int rank,
                                        int job_world);
/// The oldest operation that the rank of `recorder` has not finished: "started all_reduce (step, 4 fp64), transaction 7
/// of communicator 'reduce', 1.25 s ago and has not finished it". If all are finished, the one that started last: "last
/// started ... ago and finished it".
[[nodiscard]] std::string describe_last(FlightRecorder const& recorder);

/// A rank that an operation waits for.
struct AwaitedRank {
  std::string who;    ///< "rank 3"
  bool here;          ///< It has arrived.
  std::string words;  ///< Its activity: describe_last(), or no_answer.
};
constexpr std::string_view no_answer = "does not answer: it is frozen, gone or cannot be reached";
/// "rank 1 waited 2.00 s in all_gather (...); missing: rank 3, which started ...". If none of `ranks` is missing,
/// `if_none` and the ranks that have arrived.
[[nodiscard]] std::string describe_missing(std::string const& who, std::chrono::nanoseconds waited,
                                           std::string const& where, std::span<AwaitedRank const> ranks,
                                           std::string_view if_none);

}  // namespace zeroth::comm
