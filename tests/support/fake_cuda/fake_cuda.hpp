// SPDX-License-Identifier: Apache-2.0
/// A CUDA runtime for tests on machines without a GPU, linked instead of libcudart.
///
/// Streams are queues that worker threads run, so work of several streams races as on a GPU. Device memory is memory of
/// the host. It replaces the functions that the library calls, and cudaStreamGetPriority, which tests call:
///
///   cudaGetDeviceCount cudaSetDevice cudaGetDevice cudaDeviceGetStreamPriorityRange cudaDeviceGetAttribute
///   cudaDriverGetVersion cudaFuncGetAttributes cudaDeviceCanAccessPeer cudaDeviceEnablePeerAccess
///   cudaDeviceGetPCIBusId cudaGetDeviceProperties
///   cudaMalloc cudaFree cudaHostAlloc cudaFreeHost cudaMemGetInfo cudaMemcpyAsync cudaMemsetAsync
///   cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamQuery cudaStreamWaitEvent cudaLaunchHostFunc
///   cudaEventCreateWithFlags cudaEventDestroy cudaEventRecord cudaEventQuery cudaEventElapsedTime
///   cudaGetLastError cudaGetErrorName cudaGetErrorString
///   cudaStreamBeginCapture cudaStreamEndCapture cudaStreamIsCapturing cudaStreamGetCaptureInfo
///   cudaThreadExchangeStreamCaptureMode cudaEventRecordWithFlags cudaGraphInstantiate cudaGraphLaunch
///   cudaGraphExecDestroy cudaGraphDestroy cudaGraphGetNodes cudaGraphGetEdges
///
/// Functions that block the host (cudaStreamSynchronize, cudaEventSynchronize, cudaDeviceSynchronize, cudaMemcpy and
/// the like) are missing on purpose: if a test links, the library calls none of them. Benchmarks call some, and link
/// blocking_calls.cpp, which has these.
///
/// It is stricter than CUDA to find mistakes. It rejects asynchronous copies from or to memory that CUDA does not know,
/// which would block the host; destroyed handles; the default stream unless it is requested; and, at its launch, a
/// kernel with memory that its GPU cannot access. New memory is full of garbage.
/// As in CUDA, cudaFree waits for the GPU, and a kernel's first launch may. Events are recorded on streams of their own
/// GPU, and kernels are launched on streams of the current one. Functions of the host run one at a time and may not
/// call CUDA. Every later call returns an error of enqueued work.
///
/// A stream that is being captured adds its work to a graph instead of running it. At each launch, the graph's nodes
/// that are ready run in random order, on as many threads as streams were captured, so a missing edge is a race. It is
/// stricter than CUDA here, too: a thread that captures may not use the default stream of that GPU, though streams do
/// not block; and waits for events that were never recorded cross the capture's boundary.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace zeroth::testing::fake_cuda {

struct Machine {
  int gpus = 1;
  std::size_t bytes = std::size_t{1} << 30U;  ///< Memory of each GPU.
  bool peer_access = true;
  /// Offset of cudaMalloc's blocks from multiples of 4096; a multiple of 256.
  std::size_t block_offset = 0;
  /// Like GPUs that can access all memory of the host: copies may be from and to memory that CUDA does not know.
  bool reaches_host_memory = false;
  unsigned delays = 0;  ///< Seed of random sleeps in streams' work; 0: none.
  /// The time that a timing event takes on its stream. If it is not 0, time is simulated: only such events, and
  /// pass_time(), take any.
  int timed_event_us = 0;
  bool default_stream = false;  ///< Whether each GPU has a default stream; otherwise the null handle is rejected.
  int driver = CUDART_VERSION;  ///< The newest CUDA that the driver supports; 0: no driver.
  char const* name = "Made-up GPU";
  int capability = 90;      ///< Compute capability; below 80 no kernel runs.
  unsigned graph_seed = 0;  ///< Seed of the order of graphs' nodes; 0: a random one, see graph_seed().
};

/// Resets the machine. Ends the test program if something of the last one is still alive: see leftovers().
void reset(Machine const& machine = {});
/// "2 blocks, 1 stream": objects that were not freed; empty if there are none.
[[nodiscard]] std::string leftovers();

/// Enqueues work on a stream, like a kernel on a GPU. `work` must not wait for anything.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// Makes a piece of work, on the thread that enqueues it. If the work was captured, it is called at each launch of the
/// graph, in the order of capture, on the thread that launches. It must not call CUDA.
using Prepare = std::function<std::function<void()>()>;
/// Enqueues work that differs from launch to launch, and may wait for other ranks. Pieces of work with the same `line`
/// in one graph run in the order of capture, whatever their streams.
cudaError_t enqueue_in_line(cudaStream_t stream, Prepare prepare, void const* line);

/// A graph that was instantiated.
struct GraphMade {
  std::size_t nodes, edges;  ///< Edges that streams and events made, without those of enqueue_in_line().
  bool dropped;              ///< Whether it lacks an edge, see drop_edge().
  bool redundant;            ///< Whether other edges imply the one that it lacks.
};
/// The graphs instantiated since reset().
[[nodiscard]] std::vector<GraphMade> graphs_made();
/// Drops edge number `edge`, from 0, of the next graph that is instantiated. Unless the edge is redundant, the node
/// that depended on the other then runs before it at every launch. (A node of a line starts before it, and may still be
/// running.) If there is no such edge, cudaGraphInstantiate returns cudaErrorInvalidValue.
void drop_edge(std::size_t edge);
/// The seed of the order in which ready nodes of graphs run.
[[nodiscard]] unsigned graph_seed();

/// Whether a stream made by this thread still has work on the GPU that has `memory`.
[[nodiscard]] bool has_work_beside(void const* memory);

/// The number of calls of each function since reset(). First launches of a kernel count as "load".
[[nodiscard]] std::map<std::string, std::int64_t> calls();
/// The number of calls of one function; enqueued work counts as "launch".
[[nodiscard]] std::int64_t calls(std::string const& function);
/// The number of timing events created since reset().
[[nodiscard]] std::int64_t timed_events_made();
/// The simulated time since reset(), in microseconds, and a way to advance it.
[[nodiscard]] std::int64_t time_us();
void pass_time(std::int64_t microseconds);
/// Bytes of GPU memory in use on GPU 0.
[[nodiscard]] std::int64_t bytes_in_use();
/// Bytes of pinned memory of the host.
[[nodiscard]] std::int64_t pinned_bytes();

/// Makes the call of `function` after `after` more ones return `error` without effect.
void refuse(std::string const& function, cudaError_t error, int after = 0);
/// Makes the work on GPU 0 after `after` more pieces fail with `error`, and the GPU with it.
void fail_work(cudaError_t error, int after = 0);

}  // namespace zeroth::testing::fake_cuda
