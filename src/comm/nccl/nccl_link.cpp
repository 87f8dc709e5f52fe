// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_link.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "comm/describe.hpp"
#include "comm/nccl/pace.hpp"
#include "core/counter.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::chrono::seconds patience_for_others_inside{2};
constexpr std::chrono::seconds patience_for_an_abort{3};  // and for a destruction once the job has failed

void rest(std::chrono::microseconds time) {
  if (time.count() == 0) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(time);
  }
}

}  // namespace

NcclLink::NcclLink(Identity given, FlightRecorder& recorder, JobFailed failed)
    : identity{std::move(given)},
      pending{recorder, identity.gpu, identity.group.job_ranks},
      failed_{std::move(failed)} {
  owned_->name = identity.group.name;
}

NcclLink::~NcclLink() { abort(); }

ncclConfig_t NcclLink::config() const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;  // shared resources would end together, and serialise
  config.commName = owned_->name.c_str();
  config.CTAPolicy = uses_copy_engine() ? NCCL_CTA_POLICY_ZERO : NCCL_CTA_POLICY_DEFAULT;
  return config;
}

bool NcclLink::uses_copy_engine() const {
  constexpr int first_that_ends = 23102;
  bool const hangs = world() == 2 && nccl().version < first_that_ends;
  if (identity.copy_engine && hangs && identity.group.rank == 0) {
    logger().warn(
        "communicator '{}' of 2 ranks does not use copy engines: the first such gather of 2 ranks hangs in NCCL {}; "
        "use NCCL {} or newer",
        name(), device::describe_nccl_version(nccl().version), device::describe_nccl_version(first_that_ends));
  }
  return identity.copy_engine && !hangs;
}

ncclComm_t NcclLink::handle() const {
  if (handle_ == nullptr) {
    auto const reason = failed_();  // the watch ends communicators once the job has failed
    throw PeerError{fmt::format("{}communicator '{}' was ended", reason ? *reason + "; " : std::string{}, name())};
  }
  return handle_;
}

ncclResult_t NcclLink::check(char const* call, ncclResult_t result) const {
  if (is_error(result)) {
    throw SystemError{describe_nccl(call, name(), identity.gpu, result, handle_)};
  }
  return result;
}

/// NCCL returns at once and continues in the background: no other call may be issued until it reports completion.
void NcclLink::settle(char const* call, ncclResult_t result, ncclComm_t handle, Clock::time_point deadline) const {
  auto const begin = Clock::now();
  for (int asked = 0; result == ncclInProgress; ++asked) {
    if (auto const reason = failed_()) {
      throw PeerError{fmt::format("{}; {} of communicator '{}' was under way", *reason, call, name())};
    }
    auto const now = Clock::now();
    if (now >= deadline) {
      throw PeerError{fmt::format("{} of communicator '{}' on cuda:{} did not end within {}", call, name(),
                                  identity.gpu, describe(now - begin))};
    }
    rest(rest_between(asked, now - begin));
    ncclResult_t state = ncclInProgress;
    check("ncclCommGetAsyncError", nccl().async_error(handle, &state));
    result = check(call, state);
  }
}

std::unique_lock<std::mutex> NcclLink::try_to_enter(Clock::time_point deadline) noexcept {
  std::unique_lock lock{mutex_, std::defer_lock};
  while (!lock.try_lock() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return lock;
}

std::unique_lock<std::mutex> NcclLink::enter(char const* call, Clock::time_point deadline) {
  while (true) {
    auto lock = try_to_enter(std::min(deadline, Clock::now() + std::chrono::milliseconds{10}));
    if (lock.owns_lock()) {
      return lock;
    }
    if (auto const reason = failed_()) {
      throw PeerError{fmt::format("{}; {} of communicator '{}' was about to begin", *reason, call, name())};
    }
    if (Clock::now() >= deadline) {
      throw PeerError{fmt::format("{} of communicator '{}' on cuda:{} could not begin: another thread is stuck in NCCL",
                                  call, name(), identity.gpu)};
    }
  }
}

void NcclLink::start(ncclUniqueId const& id, Clock::time_point deadline) {
  std::lock_guard const lock{mutex_};
  auto settings = config();
  auto& slot = owned_->handles.emplace_back(nullptr);  // written at once, and again by NCCL's thread at completion
  try {
    auto const result = nccl().init_rank(&slot, world(), id, identity.group.rank, &settings);
    handle_ = std::atomic_ref{slot}.load(std::memory_order_acquire);
    settle("ncclCommInitRankConfig", check("ncclCommInitRankConfig", result), handle_, deadline);
  } catch (...) {
    drop();
    throw;
  }
}

void NcclLink::start_from(NcclLink& parent, int color, int key, Clock::time_point deadline) {
  std::lock_guard const lock{mutex_};
  auto settings = config();
  try {
    handle_ = parent.split(color, key, deadline, &settings);
    ncclResult_t state = ncclSuccess;
    check("ncclCommSplit", nccl().async_error(handle(), &state));
    settle("ncclCommSplit", check("ncclCommSplit", state), handle_, deadline);
  } catch (...) {
    drop();
    throw;
  }
}

/// The parent is busy until the new handle exists, which is then busy itself.
ncclComm_t NcclLink::split(int color, int key, Clock::time_point deadline, ncclConfig_t* config) {
  auto& slot = owned_->handles.emplace_back(nullptr);
  call("ncclCommSplit", deadline, [&](ncclComm_t whole) { return nccl().split(whole, color, key, &slot, config); });
  return slot;
}

/// NCCL may never return from either call. They run on a separate thread, which is then abandoned with the objects that
/// NCCL may still use.
void NcclLink::end_handle(Ending ending) noexcept {
  auto* const handle = std::exchange(handle_, nullptr);
  if (handle == nullptr) {
    return;
  }
  bool const aborts = ending == Ending::abort;
  auto const end = aborts ? nccl().abort : nccl().destroy;
  auto const ended = std::make_shared<Counter>();
  std::thread thread;
  try {
    thread = std::thread{[handle, end, ended, owned = owned_, gpu = identity.gpu] {
      ::pthread_setname_np(::pthread_self(), "nccl end");
      static_cast<void>(cudaSetDevice(gpu));  // otherwise it would work with GPU 0
      static_cast<void>(end(handle));
      ended->add();
    }};
  } catch (std::exception const&) {  // no thread can be started
    return static_cast<void>(end(handle));
  }
  // A destruction waits until all ranks of the machine have called theirs. They may take their time while the job
  // continues.
  bool waits = true;
  while (waits && !ended->wait_until(1, Clock::now() + patience_for_an_abort)) {
    waits = !aborts && !failed_();
  }
  if (waits) {
    return thread.join();
  }
  thread.detach();
  logger().error("communicator '{}': NCCL does not return from its {}; its thread is abandoned", name(),
                 aborts ? "abort" : "destruction");
}

std::string NcclLink::find_error() {
  std::unique_lock const lock{mutex_, std::try_to_lock};
  if (!lock || handle_ == nullptr) {
    return {};
  }
  ncclResult_t state = ncclSuccess;
  auto const asked = nccl().async_error(handle_, &state);
  auto const result = is_error(asked) ? asked : state;
  return is_error(result) ? describe_nccl("NCCL's work", name(), identity.gpu, result, handle_) : std::string{};
}

ncclWindow_t NcclLink::make_window(void* memory, std::int64_t bytes, Clock::time_point deadline) {
  auto& slot = owned_->windows.emplace_back(nullptr);
  call("ncclCommWindowRegister", deadline, [&](ncclComm_t handle) {
    return nccl().register_window(handle, memory, static_cast<std::size_t>(bytes), &slot, NCCL_WIN_COLL_SYMMETRIC);
  });
  windows_ += slot == nullptr ? 0 : 1;
  return slot;
}

void NcclLink::forget(ncclWindow_t window, Clock::time_point deadline) noexcept {
  --windows_;
  auto const lock = try_to_enter(Clock::now() + patience_for_an_abort);
  if (!lock.owns_lock() || handle_ == nullptr || failed_()) {  // ended with it, or about to end
    return;
  }
  try {
    constexpr char const* name = "ncclCommWindowDeregister";
    settle(name, check(name, nccl().deregister_window(handle_, window)), handle_, deadline);
  } catch (std::exception const& error) {
    logger().warn("{}", error.what());
  }
}

void NcclLink::abort() noexcept {
  auto const lock = try_to_enter(Clock::now() + patience_for_others_inside);
  if (!lock.owns_lock()) {
    logger().error("communicator '{}': aborted while another thread is stuck in NCCL", name());
  }
  drop();
}

void NcclLink::finish(Clock::time_point deadline) noexcept {
  auto const lock = try_to_enter(Clock::now() + patience_for_an_abort);
  if (!lock.owns_lock()) {
    return logger().error("communicator '{}': not finished, because another thread is stuck in NCCL", name());
  }
  if (handle_ == nullptr) {
    return;
  }
  if (failed_()) {  // other ranks will not come to finish it
    return drop();
  }
  try {
    settle("ncclCommFinalize", check("ncclCommFinalize", nccl().finalize(handle_)), handle_, deadline);
  } catch (std::exception const& error) {
    logger().warn("{}; aborting the communicator", error.what());
    return drop();
  }
  end_handle(Ending::destruction);
}

}  // namespace zeroth::comm
