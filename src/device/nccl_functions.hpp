// SPDX-License-Identifier: Apache-2.0
/// The NCCL functions that this library calls, except ncclGetVersion: their names here, and in NCCL.
#pragma once

#define ZEROTH_NCCL_FUNCTIONS(FUNCTION)               \
  FUNCTION(get_unique_id, ncclGetUniqueId)            \
  FUNCTION(error_string, ncclGetErrorString)          \
  FUNCTION(last_error, ncclGetLastError)              \
  FUNCTION(init_rank, ncclCommInitRankConfig)         \
  FUNCTION(split, ncclCommSplit)                      \
  FUNCTION(async_error, ncclCommGetAsyncError)        \
  FUNCTION(finalize, ncclCommFinalize)                \
  FUNCTION(destroy, ncclCommDestroy)                  \
  FUNCTION(abort, ncclCommAbort)                      \
  FUNCTION(group_start, ncclGroupStart)               \
  FUNCTION(group_end, ncclGroupEnd)                   \
  FUNCTION(all_reduce, ncclAllReduce)                 \
  FUNCTION(all_gather, ncclAllGather)                 \
  FUNCTION(reduce_scatter, ncclReduceScatter)         \
  FUNCTION(broadcast, ncclBroadcast)                  \
  FUNCTION(reduce, ncclReduce)                        \
  FUNCTION(make_premul_sum, ncclRedOpCreatePreMulSum) \
  FUNCTION(destroy_operator, ncclRedOpDestroy)        \
  FUNCTION(send, ncclSend)                            \
  FUNCTION(receive, ncclRecv)                         \
  FUNCTION(allocate, ncclMemAlloc)                    \
  FUNCTION(free, ncclMemFree)                         \
  FUNCTION(register_window, ncclCommWindowRegister)   \
  FUNCTION(deregister_window, ncclCommWindowDeregister)
