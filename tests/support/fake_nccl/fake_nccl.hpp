// SPDX-License-Identifier: Apache-2.0
/// An NCCL for tests on machines without a GPU, linked in place of a libnccl that is loaded, on the CUDA runtime of
/// support/fake_cuda.
///
/// Ranks are threads of one process, or processes: see meet_in(). A group is one piece of work of its stream, which
/// waits there until all ranks of the communicator have come, as NCCL's kernels do, or until it is aborted. Sums are in
/// rank order, fp32 for 16-bit types: real NCCL promises neither. It replaces the functions that the library calls, and
/// no others:
///
///   ncclGetUniqueId ncclGetErrorString ncclGetLastError ncclCommGetAsyncError
///   ncclCommInitRankConfig ncclCommSplit ncclCommFinalize ncclCommDestroy ncclCommAbort
///   ncclGroupStart ncclGroupEnd ncclAllReduce ncclAllGather ncclReduceScatter ncclBroadcast ncclReduce
///   ncclSend ncclRecv ncclMemAlloc ncclMemFree ncclCommWindowRegister ncclCommWindowDeregister
///
/// Refused as ncclInvalidUsage, though NCCL allows some of it: communicators that block or share resources; operations
/// that are no sum; collectives and messages outside of a group, where another GPU is current than the communicator's,
/// or in one group with those of another communicator or stream, or with each other; and calls of a communicator while
/// its last one is under way, other than to ask, to destroy and to abort; and a second window of a communicator on the
/// same memory, whose data NCCL mixes up before 2.31.2; and ncclMemFree, which waits for nothing, while streams of the
/// thread that calls it have work on that GPU. Nothing else is checked: not memory, for
/// example. What a call returns when it has only begun is what NCCL 2.28 returns: ncclSuccess for splits and windows.
/// As there, ranks are connected when they need it: the first group of collectives of a communicator, and the first
/// message from one rank to another, are under way until all who take part have called ncclGroupEnd() for theirs.
#pragma once
#include <nccl.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace zeroth::testing::fake_nccl {

/// From now on: nothing counted, no faults. Ends the test program if communicators are still alive.
void reset();
/// "2 communicators, 1 window": what was not given back; empty if nothing.
[[nodiscard]] std::string leftovers();
[[nodiscard]] std::map<std::string, std::int64_t> calls();
[[nodiscard]] std::int64_t calls(std::string const& function);
/// CTA policies of the communicators that were made, by name.
[[nodiscard]] std::multimap<std::string, int> policies();

/// From now on: ranks are processes that meet in `folder`, by files. The same on all, and no other job's.
void meet_in(std::filesystem::path const& folder);

/// The call of `function` that follows `after` more of them returns `result` and does nothing.
void refuse(std::string const& function, ncclResult_t result, int after = 0);
/// Communicators, made from now on, that are named `name` never come to be.
void stall_making(std::string const& name);
/// The group of collectives that follows `after` more of communicator `name` never ends, on any rank.
void stall_work(std::string const& name, std::uint64_t after = 0);
/// The same, on `rank`, and NCCL says `result` about it there.
void break_work(std::string const& name, int rank, ncclResult_t result, std::uint64_t after = 0);
/// ncclCommWindowRegister never ends: its window is written when the communicator is aborted.
void stall_windows();
/// NCCL gains nothing from windows: those that are asked for are null.
void give_no_windows();
/// What begins from now on is under way for so many questions (ncclCommGetAsyncError) more.
void take_time(int questions);
/// It was in the process before the library loaded it.
void be_there_before();
/// It is of this version.
void set_version(int code);
/// ncclCommFinalize never ends.
void stall_finalize();
/// ncclCommAbort does nothing, and does not return, until this is called with false.
void stall_abort(bool stalls = true);
/// The same of ncclCommDestroy, which with NCCL waits for the other ranks of a machine to call it.
void stall_destroy(bool stalls = true);

}  // namespace zeroth::testing::fake_nccl
