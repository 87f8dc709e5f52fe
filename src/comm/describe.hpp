/// Collectives in words: the one way in which messages speak of them.
#pragma once
#include <chrono>
#include <string>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// "all_gather (forward of unit 'block 3', 4096 bf16)", "broadcast (step, 1 fp32, root 2)".
[[nodiscard]] std::string describe(Label const& label, Collective const& collective);
/// "1.25 s"; milliseconds where seconds would be zero.
[[nodiscard]] std::string describe(std::chrono::nanoseconds duration);
/// Rank `rank` of communicator `name`: "rank 3", or "rank 1 of 'gather' (rank 3 of the job)".
[[nodiscard]] std::string describe_rank(std::string const& name, int rank, int job_rank);
/// What the rank of `recorder` did last: "last started all_reduce (step, 4 fp64), transaction 7 of 'reduce', 1.25 s
/// ago, and finished it".
[[nodiscard]] std::string describe_last(FlightRecorder const& recorder);

}  // namespace zeroth::comm
