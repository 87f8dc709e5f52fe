// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_thread.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <exception>

#include "core/start_thread.hpp"

namespace zeroth::comm {
namespace {

thread_local bool is_mpi_thread = false;

}  // namespace

MpiExtent MpiOperation::extent(std::int64_t bytes) {
  MpiExtent const extent = mpi_extent(bytes);
  if (extent.type != MPI_BYTE) {
    types_.push_back(extent.type);
  }
  return extent;
}

bool MpiOperation::wait_until(Clock::time_point deadline) const {
  if (!done_.wait_until(uses_, deadline)) {
    return false;
  }
  check_mpi(code_, call_);
  return true;
}

MpiThread::MpiThread(std::function<bool()> service, std::function<void(char const*)> failed)
    : service_{std::move(service)}, failed_{std::move(failed)}, thread_{start_thread("MPI", [this] { loop(); })} {}

MpiThread::~MpiThread() {
  post([this] { ending_ = true; });
  thread_.join();
}

void MpiThread::start(MpiOperation& operation) {
  ++operation.uses_;
  {
    std::lock_guard const lock{mutex_};
    posted_.push_back({&operation, {}});
  }
  posts_.add();
}

void MpiThread::post(std::function<void()> call) {
  {
    std::lock_guard const lock{mutex_};
    posted_.push_back({nullptr, std::move(call)});
  }
  posts_.add();
}

void MpiThread::run(std::function<void()> const& call) {
  Counter done;
  std::exception_ptr error;
  post([&] {
    try {
      call();
    } catch (...) {
      error = std::current_exception();
    }
    done.add();
  });
  done.wait_for(1);
  if (error) {
    std::rethrow_exception(error);
  }
}

bool MpiThread::is_current() noexcept { return is_mpi_thread; }

void MpiThread::loop() noexcept {
  is_mpi_thread = true;
  ::prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds, for this thread: its short sleeps must not be longer than requested
  while (!ending_) {
    std::uint32_t const seen = posts_.value();
    bool moved = false;
    try {
      moved = take_posted();
      if (!halted()) {
        moved = advance() || moved;
        moved = service_() || moved;
      }
    } catch (std::exception const& error) {
      failed_(error.what());
    }
    quiet_rounds_ = moved ? 0 : quiet_rounds_ + 1;
    if (auto const rest = pause(); rest.count() > 0 && !ending_) {
      (void)posts_.wait_until(seen + 1, Clock::now() + rest);
    }
  }
}

/// Ranks share cores, and a polling thread takes time from those that compute. But a large message moves piece by
/// piece, and needs polls.
std::chrono::microseconds MpiThread::pause() const noexcept {
  using std::chrono::microseconds;
  if (halted() || requests_.empty()) {
    return quiet_rounds_ == 0 ? microseconds{0} : microseconds{5000};
  }
  if (quiet_rounds_ < 32) {
    return microseconds{0};
  }
  return quiet_rounds_ < 512 ? microseconds{20} : microseconds{500};
}

bool MpiThread::take_posted() {
  {
    std::lock_guard const lock{mutex_};
    taken_.swap(posted_);
  }
  for (auto& entry : taken_) {
    if (entry.operation == nullptr) {
      entry.call();
    } else if (!halted()) {
      begin(*entry.operation);
    }
  }
  bool const any = !taken_.empty();
  taken_.clear();
  return any;
}

void MpiThread::begin(MpiOperation& operation) {
  operation.requests_.clear();
  operation.code_ = MPI_SUCCESS;
  operation.start();
  operation.outstanding_ = operation.requests_.size();
  if (operation.outstanding_ == 0 || operation.code_ != MPI_SUCCESS) {
    finish(operation);
    return;
  }
  for (MPI_Request const request : operation.requests_) {
    requests_.push_back(request);
    owners_.push_back(&operation);
  }
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
}

bool MpiThread::advance() {
  if (requests_.empty()) {
    return false;
  }
  int completed_count = 0;
  int const code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed_count,
                                completed_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
    throw_mpi_error(code, "MPI_Testsome");
  }
  if (completed_count <= 0) {
    return false;
  }
  for (int i = 0; i < completed_count; ++i) {
    MpiOperation& owner = *owners_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])];
    if (int const error = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
        code == MPI_ERR_IN_STATUS && error != MPI_SUCCESS && error != MPI_ERR_PENDING) {
      owner.fail(error, owner.call_);
    }
    owners_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])] = nullptr;
    if (--owner.outstanding_ == 0) {
      finish(owner);
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (owners_[i] != nullptr) {
      requests_[kept] = requests_[i];
      owners_[kept++] = owners_[i];
    }
  }
  requests_.resize(kept);
  owners_.resize(kept);
  return true;
}

void MpiThread::finish(MpiOperation& operation) noexcept {
  for (MPI_Datatype& type : operation.types_) {
    MPI_Type_free(&type);
  }
  operation.types_.clear();
  operation.done_.add();  // last: the waiting thread may reuse or destroy the operation as soon as this is set
}

}  // namespace zeroth::comm
