// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_pending.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/describe.hpp"
#include "device/cuda_call.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::size_t pending_at_a_time = 64;

/// A failing event belongs to a GPU that has failed, which its device reports. Here it counts as not passed.
bool has_passed(cudaEvent_t event) noexcept {
  auto const answer = cudaEventQuery(event);
  if (answer != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
  return answer == cudaSuccess;
}

}  // namespace

NcclPending::~NcclPending() {
  for (auto& work : all_) {
    static_cast<void>(cudaEventDestroy(work.begin));
    static_cast<void>(cudaEventDestroy(work.end));
  }
}

void NcclPending::add_one() {
  auto& work = all_.emplace_back();
  for (auto* const event : {&work.begin, &work.end}) {
    if (auto const error = cudaEventCreateWithFlags(event, cudaEventDisableTiming); error != cudaSuccess) {
      throw SystemError{device::describe_call("cudaEventCreateWithFlags", gpu_, error)};
    }
  }
  free_.reserve(all_.size());  // so that releasing never allocates
  free_.push_back(&work);
}

/// Reuses ended entries before it makes more, whether or not the watch has seen that they ended.
NcclPending::Work& NcclPending::free_one() {
  while (all_.size() < pending_at_a_time) {
    add_one();
  }
  if (free_.empty()) {
    settle(Clock::now());
  }
  if (free_.empty()) {
    add_one();
  }
  auto* const work = free_.back();
  free_.pop_back();
  return *work;
}

NcclPending::Work& NcclPending::begin(Transaction& transaction, std::shared_ptr<device::Failure> failure,
                                      cudaStream_t stream) {
  std::lock_guard const lock{mutex_};
  Work& work = free_one();
  work.transaction = &transaction;
  work.failure = std::move(failure);
  work.stream = stream;
  work.begun.reset();
  copy_name(work.names.purpose, transaction.label.purpose);
  copy_name(work.names.unit, transaction.label.unit);
  transaction.label = {work.names.purpose, work.names.unit};
  if (auto const error = cudaEventRecord(work.begin, stream); error != cudaSuccess) {
    release(work);
    throw SystemError{device::describe_call("cudaEventRecord", gpu_, error)};
  }
  return work;
}

void NcclPending::launched(Work& work, cudaStream_t stream) {
  std::lock_guard const lock{mutex_};
  if (auto const error = cudaEventRecord(work.end, stream); error != cudaSuccess) {
    release(work);
    throw SystemError{device::describe_call("cudaEventRecord", gpu_, error)};
  }
  launched_.push_back(&work);
}

void NcclPending::cancel(Work& work) noexcept {
  std::lock_guard const lock{mutex_};
  release(work);
}

void NcclPending::release(Work& work) noexcept {
  pool_.recycle(*work.transaction);
  work.transaction = nullptr;
  work.failure.reset();
  work.kept = false;
  free_.push_back(&work);
}

/// Checks which have begun and ended. Launches wait for the lock that it holds, so it queries CUDA about few of them:
/// work after unfinished work on the same stream has not begun.
void NcclPending::settle(Clock::time_point now) {
  std::optional<cudaStream_t> busy;
  for (auto* const work : launched_) {
    if (work->stream == busy) {
      continue;
    }
    busy = work->stream;
    if (!work->begun) {
      if (!has_passed(work->begin)) {
        continue;
      }
      work->begun = now;
      for (auto const record : work->transaction->records) {
        recorder_.started(record);
      }
    }
    if (!work->kept && has_passed(work->end)) {
      for (auto const record : work->transaction->records) {
        recorder_.finished(record);
      }
      release(*work);
      busy.reset();
    }
  }
  std::erase_if(launched_, [](Work const* work) { return work->transaction == nullptr; });
}

std::optional<NcclPending::Late> NcclPending::look(Clock::time_point now) {
  std::lock_guard const lock{mutex_};
  settle(now);
  auto const late = std::find_if(launched_.begin(), launched_.end(), [now](Work const* work) {
    return work->begun && now - *work->begun >= work->transaction->timeout;
  });
  if (late == launched_.end()) {
    return std::nullopt;
  }
  (*late)->kept = true;
  return Late{(*late)->transaction, *(*late)->begun};
}

bool NcclPending::empty() const {
  std::lock_guard const lock{mutex_};
  return launched_.empty();
}

std::string NcclPending::describe_first() const {
  std::lock_guard const lock{mutex_};
  auto const first =
      std::find_if(launched_.begin(), launched_.end(), [](Work const* work) { return !has_passed(work->end); });
  if (first == launched_.end()) {
    return {};
  }
  auto const& transaction = *(*first)->transaction;
  return fmt::format("{}, transaction {}", describe(transaction), transaction.sequence);
}

void NcclPending::fail(std::exception_ptr const& error) noexcept {
  std::lock_guard const lock{mutex_};
  for (auto const* const work : launched_) {
    if (!has_passed(work->end)) {
      work->failure->set(error);
    }
  }
}

void NcclPending::abandon() noexcept {
  std::lock_guard const lock{mutex_};
  for (auto* const work : launched_) {
    release(*work);
  }
  launched_.clear();
}

}  // namespace zeroth::comm
