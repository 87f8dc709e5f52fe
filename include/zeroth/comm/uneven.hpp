// SPDX-License-Identifier: Apache-2.0
/// Collectives whose blocks differ in length (MPI's v-forms), as lists for Communicator::submit() and
/// Collectives::start().
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/core/export.hpp"

/// Each function returns what this rank submits to the communicator `of` as one transaction:
///
///   beside.start(comm::all_gather_v(beside.communicator(), mine, all, counts, Dtype::fp32), "features").wait();
///
/// `counts` is [world]: block r has counts[r] elements, on every rank the same numbers. Blocks are contiguous, in rank
/// order. Adjoint pairs: all_gather_v and reduce_scatter_v, gather_v and scatter_v, and all_to_all_v with its lists
/// exchanged. Errors: ContractError for a list that is not [world], a negative count, or more bytes than an address
/// has; what submit() checks is checked there. Cost: a vector, and the copies and messages named at each function.
namespace zeroth::comm {

/// Rank r sends send_counts[q] elements to rank q and receives receive_counts[q] from it, so the two must agree. Both
/// lists are [world]. `input` and `output` have the sum of their list, and never overlap. One message for each pair.
[[nodiscard]] ZEROTH_EXPORT std::vector<Collective> all_to_all_v(Communicator const& of, void const* input,
                                                                 std::span<std::int64_t const> send_counts,
                                                                 void* output,
                                                                 std::span<std::int64_t const> receive_counts,
                                                                 Dtype dtype);

/// All blocks, on all ranks: [counts[rank]] to [sum of counts]. In place when `input` is this rank's block of `output`.
/// One message for each pair of ranks.
[[nodiscard]] ZEROTH_EXPORT std::vector<Collective> all_gather_v(Communicator const& of, void const* input,
                                                                 void* output, std::span<std::int64_t const> counts,
                                                                 Dtype dtype);

/// All blocks, on `root`: [counts[rank]] to [sum of counts] there. `output` is ignored elsewhere. In place as
/// all_gather_v. One message for each rank.
[[nodiscard]] ZEROTH_EXPORT std::vector<Collective> gather_v(Communicator const& of, void const* input, void* output,
                                                             std::span<std::int64_t const> counts, Dtype dtype,
                                                             int root);

/// Each rank its block of `root`'s `input`: [sum of counts] there to [counts[rank]]. `input` is ignored elsewhere. In
/// place on `root` when `output` is its block of `input`. One message for each rank.
[[nodiscard]] ZEROTH_EXPORT std::vector<Collective> scatter_v(Communicator const& of, void const* input, void* output,
                                                              std::span<std::int64_t const> counts, Dtype dtype,
                                                              int root);

/// Each rank its block of the reduction of all inputs: [sum of counts] to [counts[rank]]. In place when `output` is
/// this rank's block of `input`. One reduce for each rank, one after another: with equal counts a reduce_scatter is
/// faster.
[[nodiscard]] ZEROTH_EXPORT std::vector<Collective> reduce_scatter_v(Communicator const& of, void const* input,
                                                                     void* output, std::span<std::int64_t const> counts,
                                                                     Dtype dtype, Reduce reduce = Reduce::sum,
                                                                     double factor = 1);

}  // namespace zeroth::comm
