// SPDX-License-Identifier: Apache-2.0
/// The functions of NCCL.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "support/fake_cuda/fake_cuda.hpp"
#include "support/fake_nccl/clique.hpp"

namespace zeroth::testing::fake_nccl {
namespace {

/// The number of polls that report a call in progress.
int questions_until_ready() { return 3 + World::get().more_questions; }

/// Calls since ncclGroupStart(), on this thread.
struct Group {
  int depth = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  Calls calls;
  bool wrong = false;
};
Group& group() {
  thread_local Group mine;
  return mine;
}

ncclResult_t enter(char const* function) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  return world.enter(function);
}

Dtype dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32: return Dtype::fp32;
    case ncclBfloat16: return Dtype::bf16;
    case ncclFloat16: return Dtype::fp16;
    case ncclFloat64: return Dtype::fp64;
    case ncclInt32: return Dtype::int32;
    case ncclInt64: return Dtype::int64;
    case ncclInt8: return Dtype::int8;
    default: return Dtype::byte;
  }
}

/// The library's operator for `op`, in `call`; false if the library does not use it, or it does not exist any more.
bool take_operator(ncclComm_t communicator, ncclRedOp_t op, Call& call) {
  switch (op) {
    case ncclSum: call.reduce = Reduce::sum; return true;
    case ncclProd: call.reduce = Reduce::product; return true;
    case ncclMax: call.reduce = Reduce::maximum; return true;
    case ncclMin: call.reduce = Reduce::minimum; return true;
    case ncclAvg: call.reduce = Reduce::average; return true;
    default: break;
  }
  auto const number = static_cast<std::size_t>(op) - ncclNumOps;
  if (number >= communicator->factors.size() || !communicator->factors[number]) {
    return false;
  }
  call.reduce = Reduce::premul_sum;
  call.factor = *communicator->factors[number];
  return true;
}

/// The number at `scalar`; nullopt for a type without premul_sum.
std::optional<double> scalar_at(void const* scalar, ncclDataType_t type) {
  auto const as = [scalar]<class T>(T value) {
    std::memcpy(&value, scalar, sizeof value);
    return value;
  };
  switch (type) {
    case ncclFloat32: return static_cast<double>(as(float{}));
    case ncclFloat64: return as(double{});
    case ncclBfloat16: return static_cast<double>(to_float(as(bf16{})));
    case ncclFloat16: return static_cast<double>(to_float(as(fp16{})));
    default: return std::nullopt;
  }
}

bool is_message(Call const& call) { return call.kind == Kind::send || call.kind == Kind::receive; }

/// Adds the call to its thread's group.
ncclResult_t add(char const* function, ncclComm_t communicator, cudaStream_t stream, Call const& call) {
  if (auto const result = enter(function); result != ncclSuccess) {
    group().wrong = true;
    return result;
  }
  auto& mine = group();
  bool const fits = mine.depth > 0 && communicator != nullptr && communicator->gpu == gpu_of_thread() &&
                    communicator->is_ready() &&
                    (mine.calls.empty() || (mine.communicator == communicator && mine.stream == stream &&
                                            is_message(mine.calls.front()) == is_message(call)));
  if (!fits) {
    mine.wrong = true;
    return ncclInvalidUsage;
  }
  mine.communicator = communicator;
  mine.stream = stream;
  mine.calls.push_back(call);
  return ncclSuccess;
}

/// The fault that a test requested for group `number`.
struct Fault {
  bool stalls = false;
  ncclResult_t result = ncclSuccess;  // NCCL's report, once the stream has reached it
};
Fault fault_of(std::string const& name, int rank, std::uint64_t number) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  if (auto const found = world.broken_work.find(name);
      found != world.broken_work.end() && found->second.rank == rank && number >= found->second.after) {
    return {true, found->second.result};
  }
  auto const found = world.stalled_work.find(name);
  return {found != world.stalled_work.end() && number >= found->second, ncclSuccess};
}

/// Sets the error if the communicator is still alive.
void say(ncclComm_t communicator, ncclResult_t result) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  if (world.alive.contains(communicator)) {
    communicator->error = result;
  }
}

/// One side of a first message: "from 0 to 1: sent".
std::string side_of(int from, int to, bool sends) {
  return "from " + std::to_string(from) + " to " + std::to_string(to) + (sends ? ": sent" : ": received");
}

/// Posts that this rank has reached calls that need a connection, on first use.
void connect(Group const& mine) {
  auto& communicator = *mine.communicator;
  int const rank = communicator.rank;
  auto const meet = [&](std::string const& point, std::string const& theirs) {
    if (communicator.met.insert(point).second) {
      communicator.clique->meet(point);
      communicator.awaited.push_back(theirs);
    }
  };
  for (auto const& call : mine.calls) {
    bool const sends = call.kind == Kind::send;
    if (is_message(call) && call.peer != rank) {
      int const from = sends ? rank : call.peer;
      int const to = sends ? call.peer : rank;
      meet(side_of(from, to, sends), side_of(from, to, !sends));
    } else if (!is_message(call) && communicator.met.insert("collective").second) {
      communicator.clique->meet("collective of " + std::to_string(rank));
      for (int other = 0; other < communicator.clique->world(); ++other) {
        communicator.awaited.push_back("collective of " + std::to_string(other));
      }
    }
  }
}

/// The work of a group, with its place among all of its communicator. A graph has another place at each launch.
std::function<void()> take_place(std::shared_ptr<Clique> const& clique, int rank, ncclComm_t communicator,
                                 Calls const& calls) {
  std::function<void()> work;
  if (is_message(calls.front())) {
    work = [clique, rank, calls] { clique->exchange(rank, calls); };
  } else {
    auto const number = clique->next_number(rank);
    work = [clique, rank, calls, number, communicator, fault = fault_of(clique->name(), rank, number)] {
      if (fault.result != ncclSuccess) {
        say(communicator, fault.result);
      }
      clique->run(rank, number, calls, fault.stalls);
    };
  }
  return [clique, rank, turn = clique->next_turn(rank), work = std::move(work)] { clique->in_turn(rank, turn, work); };
}

ncclResult_t launch(Group const& mine) {
  auto const clique = mine.communicator->clique;
  auto prepare = [clique, rank = mine.communicator->rank, communicator = mine.communicator, calls = mine.calls] {
    return take_place(clique, rank, communicator, calls);
  };
  return fake_cuda::enqueue_in_line(mine.stream, std::move(prepare), mine.communicator) == cudaSuccess
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

ncclComm_t make(std::shared_ptr<Clique> clique, char const* name, int rank, int policy) {
  auto& world = World::get();
  auto communicator = std::make_unique<ncclComm>();
  communicator->name = name;
  communicator->rank = rank;
  communicator->asked = questions_until_ready();
  communicator->stalled = world.stalled_making.contains(clique->name());
  world.policies.emplace(clique->name(), policy);
  clique->join(rank);
  communicator->clique = std::move(clique);
  world.alive.insert(communicator.get());
  return communicator.release();
}

/// Completes a split once all ranks of the parent have posted their arguments.
void complete_split(ncclComm_t parent) {
  auto const wish = *parent->splitting;
  auto const wishes = parent->clique->wishes(wish.number);
  if (wishes.empty()) {
    return;
  }
  int members = 0;
  int rank = 0;
  auto const mine = std::pair{wishes[static_cast<std::size_t>(parent->rank)].key, parent->rank};
  for (int other = 0; other < parent->clique->world(); ++other) {
    auto const& its = wishes[static_cast<std::size_t>(other)];
    members += its.color == wish.color ? 1 : 0;
    rank += its.color == wish.color && std::pair{its.key, other} < mine ? 1 : 0;
  }
  parent->splitting.reset();
  if (wish.color >= 0) {
    auto& world = World::get();
    std::lock_guard const lock{world.mutex};
    auto const id = parent->clique->id() + "." + std::to_string(wish.number) + "." + std::to_string(wish.color);
    *wish.result = make(world.clique(id, wish.name, members), wish.name, rank, wish.policy);
  }
}

/// Completes the creation, as NCCL's own thread does.
void complete_making(ncclComm_t communicator) {
  if (auto* const born = std::exchange(communicator->born, nullptr)) {
    *born = communicator;
  }
}

/// Stores the window that the caller requested.
void complete_window(ncclComm_t communicator) {
  if (auto const made = std::exchange(communicator->registering, std::nullopt)) {
    *made->second = made->first;
  }
}

bool allows(ncclConfig_t const* config) {
  return config == nullptr || (config->blocking == 0 && config->splitShare == 0 && config->commName != nullptr);
}

ncclResult_t end(ncclComm_t communicator) {
  if (communicator == nullptr) {
    return ncclInvalidArgument;
  }
  if (communicator->clique->name() != communicator->name) {
    std::fputs("a communicator outlives the name that it was made with\n", stderr);
    std::abort();
  }
  if (std::ranges::any_of(communicator->factors, [](auto const& factor) { return factor.has_value(); })) {
    std::fputs("a communicator ends before its operators\n", stderr);
    std::abort();
  }
  communicator->clique->abort(communicator->rank);
  complete_making(communicator);
  complete_window(communicator);
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  if (world.alive.erase(communicator) == 0) {
    return ncclInvalidArgument;
  }
  std::erase_if(world.windows, [communicator](ncclWindow_t window) {
    bool const ends = window->communicator == communicator;
    if (ends) {
      delete window;
    }
    return ends;
  });
  delete communicator;
  return ncclSuccess;
}

}  // namespace
}  // namespace zeroth::testing::fake_nccl

using namespace zeroth::testing::fake_nccl;  // the functions below are NCCL's, and not in a namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  if (auto const result = world.enter("ncclGetUniqueId"); result != ncclSuccess) {
    return result;
  }
  std::memset(id->internal, 0, sizeof id->internal);
  std::strcpy(id->internal, (std::to_string(::getpid()) + "-" + std::to_string(++world.ids)).c_str());
  return ncclSuccess;
}

char const* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "unknown";
  }
}

char const* ncclGetLastError(ncclComm_t /*communicator*/) { return "said by the NCCL of the tests"; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  if (auto const result = world.enter("ncclCommInitRankConfig"); result != ncclSuccess) {
    return result;
  }
  if (config == nullptr || !allows(config)) {
    return ncclInvalidUsage;
  }
  auto const clique = world.clique(id.internal, config->commName, ranks);
  if (clique->world() != ranks) {
    return ncclInvalidArgument;
  }
  *communicator = make(clique, config->commName, rank, config->CTAPolicy);
  (*communicator)->born = communicator;
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  {
    auto& world = World::get();
    std::lock_guard const lock{world.mutex};
    if (auto const refused = world.enter("ncclCommSplit"); refused != ncclSuccess) {
      return refused;
    }
  }
  if (!allows(config) || (color != NCCL_SPLIT_NOCOLOR && (color < 0 || config == nullptr)) || !parent->is_ready()) {
    return ncclInvalidUsage;
  }
  *result = nullptr;
  parent->splitting = {parent->splits++, color, result, config == nullptr ? nullptr : config->commName,
                       config == nullptr ? 0 : config->CTAPolicy};
  parent->clique->wish(parent->rank, parent->splitting->number, {color, key});
  return ncclSuccess;  // like NCCL 2.28: the parent reports that it has only begun
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  {
    auto& world = World::get();
    std::lock_guard const lock{world.mutex};
    if (auto const result = world.enter("ncclCommGetAsyncError"); result != ncclSuccess) {
      return result;
    }
    *state = communicator->is_ready() ? communicator->error : ncclSuccess;  // an error of launched work
  }
  if (*state != ncclSuccess) {
    return ncclSuccess;
  }
  if (communicator->splitting) {
    complete_split(communicator);
  }
  if (communicator->asked > 0 && !communicator->stalled && communicator->clique->complete() &&
      communicator->clique->have_met(communicator->awaited)) {
    communicator->awaited.clear();
    if (--communicator->asked == 0) {
      complete_making(communicator);
      complete_window(communicator);
    }
  }
  *state = communicator->splitting || communicator->asked > 0 ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  if (auto const result = world.enter("ncclCommFinalize"); result != ncclSuccess) {
    return result;
  }
  if (!communicator->is_ready()) {
    return ncclInvalidUsage;
  }
  communicator->asked = questions_until_ready();
  communicator->stalled = world.finalize_stalls;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  static_cast<void>(enter("ncclCommDestroy"));
  World::get().destroy_stalls.wait(true);
  return end(communicator);
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  static_cast<void>(enter("ncclCommAbort"));
  World::get().abort_stalls.wait(true);
  return end(communicator);
}

ncclResult_t ncclGroupStart() {
  auto const result = enter("ncclGroupStart");
  group().depth += result == ncclSuccess ? 1 : 0;
  return result;
}

ncclResult_t ncclGroupEnd() {
  auto const result = enter("ncclGroupEnd");
  auto const mine = std::exchange(group(), Group{});
  if (result != ncclSuccess || mine.depth != 1 || mine.wrong) {
    return result != ncclSuccess ? result : ncclInvalidUsage;
  }
  if (mine.calls.empty()) {
    return ncclSuccess;
  }
  connect(mine);
  auto const launched = launch(mine);
  mine.communicator->asked += launched == ncclSuccess ? 1 + World::get().more_questions : 0;
  return launched == ncclSuccess ? ncclInProgress : launched;
}

ncclResult_t ncclAllReduce(void const* input, void* output, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t communicator, cudaStream_t stream) {
  Call call{Kind::all_reduce, input, output, count, dtype_of(type), 0};
  return take_operator(communicator, op, call) ? add("ncclAllReduce", communicator, stream, call) : ncclInvalidUsage;
}

ncclResult_t ncclAllGather(void const* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return add("ncclAllGather", communicator, stream, {Kind::all_gather, input, output, count, dtype_of(type), 0});
}

ncclResult_t ncclReduceScatter(void const* input, void* output, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t communicator, cudaStream_t stream) {
  Call call{Kind::reduce_scatter, input, output, count, dtype_of(type), 0};
  return take_operator(communicator, op, call) ? add("ncclReduceScatter", communicator, stream, call)
                                               : ncclInvalidUsage;
}

ncclResult_t ncclBroadcast(void const* input, void* output, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return add("ncclBroadcast", communicator, stream, {Kind::broadcast, input, output, count, dtype_of(type), root});
}

ncclResult_t ncclReduce(void const* input, void* output, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t communicator, cudaStream_t stream) {
  Call call{Kind::reduce, input, output, count, dtype_of(type), root};
  return take_operator(communicator, op, call) ? add("ncclReduce", communicator, stream, call) : ncclInvalidUsage;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t communicator) {
  auto const factor = scalar_at(scalar, type);
  if (residence != ncclScalarHostImmediate || !factor || communicator == nullptr) {
    return ncclInvalidArgument;
  }
  communicator->factors.emplace_back(factor);
  *op = static_cast<ncclRedOp_t>(ncclNumOps + communicator->factors.size() - 1);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t communicator) {
  Call call;
  if (op < ncclNumOps || communicator == nullptr || !take_operator(communicator, op, call)) {
    return ncclInvalidArgument;
  }
  communicator->factors[static_cast<std::size_t>(op) - ncclNumOps].reset();
  return ncclSuccess;
}

ncclResult_t ncclSend(void const* input, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add("ncclSend", communicator, stream, {Kind::send, input, nullptr, count, dtype_of(type), peer});
}

ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add("ncclRecv", communicator, stream, {Kind::receive, nullptr, output, count, dtype_of(type), peer});
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  if (auto const result = enter("ncclMemAlloc"); result != ncclSuccess) {
    return result;
  }
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory) {
  static_cast<void>(enter("ncclMemFree"));
  if (zeroth::testing::fake_cuda::has_work_beside(memory)) {
    return ncclInvalidUsage;
  }
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int flags) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  if (auto const result = world.enter("ncclCommWindowRegister"); result != ncclSuccess) {
    return result;
  }
  if (flags != NCCL_WIN_COLL_SYMMETRIC || reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return ncclInvalidArgument;
  }
  if (!communicator->is_ready()) {
    return ncclInvalidUsage;
  }
  auto const first = reinterpret_cast<std::uintptr_t>(memory);
  if (std::any_of(world.windows.begin(), world.windows.end(), [&](ncclWindow_t other) {
        return other->communicator == communicator && first < other->first + other->bytes &&
               other->first < first + bytes;
      })) {
    return ncclInvalidUsage;
  }
  auto* const made = world.gives_windows ? new ncclWindow_vidmem{communicator, first, bytes} : nullptr;
  if (made != nullptr) {
    world.windows.insert(made);
  }
  communicator->registering = {made, window};
  communicator->asked = questions_until_ready();
  communicator->stalled = world.windows_stall;
  return ncclSuccess;  // like a split
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  auto const result = world.enter("ncclCommWindowDeregister");
  if (!world.windows.contains(window) || window->communicator != communicator) {
    return ncclInvalidArgument;
  }
  if (!communicator->is_ready()) {
    return ncclInvalidUsage;
  }
  world.windows.erase(window);
  delete window;
  communicator->asked = questions_until_ready();
  return result == ncclSuccess ? ncclInProgress : result;
}

}  // extern "C"
