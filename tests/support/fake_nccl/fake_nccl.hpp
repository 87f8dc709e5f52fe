// SPDX-License-Identifier: Apache-2.0
/// An NCCL for tests on machines without a GPU, linked instead of a libnccl that is loaded. It uses the CUDA runtime of
/// support/fake_cuda.
///
/// Ranks are threads of one process, or processes: see meet_in(). A group is one piece of work of its stream, where it
/// waits until all ranks of the communicator have arrived, like NCCL's kernels, or until it is aborted. Sums are in
/// rank order, in fp32 for 16-bit types, neither of which the real NCCL promises. It replaces exactly the functions
/// that the library calls:
///
///   ncclGetUniqueId ncclGetErrorString ncclGetLastError ncclCommGetAsyncError
///   ncclCommInitRankConfig ncclCommSplit ncclCommFinalize ncclCommDestroy ncclCommAbort
///   ncclGroupStart ncclGroupEnd ncclAllReduce ncclAllGather ncclReduceScatter ncclBroadcast ncclReduce
///   ncclSend ncclRecv ncclMemAlloc ncclMemFree ncclCommWindowRegister ncclCommWindowDeregister
///
/// A stream that is being captured adds groups to its graph. At each launch they meet those of the other ranks, in the
/// order of the communicator: graphs may launch between groups that run at once.
///
/// It returns ncclInvalidUsage in these cases, though NCCL allows some of them:
/// - communicators that block or share resources
/// - operations other than sums
/// - collectives and messages outside of a group, while the current GPU is not the communicator's, or in one group with
///   those of another communicator or stream, or with each other
/// - calls of a communicator whose last call is in progress, except to poll, to destroy and to abort
/// - a second window of a communicator on the same memory, whose data NCCL mixes up before 2.31.2
/// - ncclMemFree, which waits for nothing, while streams of the calling thread have work on that GPU
///
/// It checks nothing else, for example no memory. Calls that have only begun return what NCCL 2.28 returns: ncclSuccess
/// for splits and windows. As in NCCL, ranks are connected on demand: the first group of collectives of a communicator,
/// and the first message from one rank to another, are in progress until all participants have called ncclGroupEnd()
/// for theirs.
#pragma once
#include <nccl.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace zeroth::testing::fake_nccl {

/// Clears counters and faults. Ends the test program if communicators are still alive.
void reset();
/// "2 communicators, 1 window": objects that were not freed; empty if there are none.
[[nodiscard]] std::string leftovers();
[[nodiscard]] std::map<std::string, std::int64_t> calls();
[[nodiscard]] std::int64_t calls(std::string const& function);
/// CTA policies of the communicators created so far, by name.
[[nodiscard]] std::multimap<std::string, int> policies();

/// From now on ranks are processes that meet in `folder`, by files. The same on all ranks, and not used by another job.
void meet_in(std::filesystem::path const& folder);

/// Makes the call of `function` after `after` more ones return `result` without effect.
void refuse(std::string const& function, ncclResult_t result, int after = 0);
/// Communicators named `name` that are made from now on are never completed.
void stall_making(std::string const& name);
/// The group of collectives after `after` more ones of communicator `name` never ends, on any rank.
void stall_work(std::string const& name, std::uint64_t after = 0);
/// Like stall_work(), only on `rank`, where NCCL also reports `result`.
void break_work(std::string const& name, int rank, ncclResult_t result, std::uint64_t after = 0);
/// ncclCommWindowRegister never completes: its window is written when the communicator is aborted.
void stall_windows();
/// NCCL gains nothing from windows: requests return null.
void give_no_windows();
/// Calls that begin from now on take this many more polls (ncclCommGetAsyncError).
void take_time(int questions);
/// Makes the library find NCCL in the process before it loads it.
void be_there_before();
/// Sets NCCL's version.
void set_version(int code);
/// ncclCommFinalize never completes.
void stall_finalize();
/// ncclCommAbort does nothing, and does not return, until this is called with false.
void stall_abort(bool stalls = true);
/// Like stall_abort(), for ncclCommDestroy, which in NCCL waits for the other ranks of a machine to call it.
void stall_destroy(bool stalls = true);

}  // namespace zeroth::testing::fake_nccl
