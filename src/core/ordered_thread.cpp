// SPDX-License-Identifier: Apache-2.0
#include "core/ordered_thread.hpp"

#include <utility>

#include "core/start_thread.hpp"

namespace zeroth {

OrderedThread::OrderedThread(std::string_view what) {
  thread_ = start_thread(what, [this, rank = this_rank()] {
    this_rank() = rank;
    run();
  });
}

OrderedThread::~OrderedThread() {
  {
    std::lock_guard const lock{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void OrderedThread::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    changed_.wait(lock, [this] { return ends_ || (!tasks_.empty() && !error_); });
    if (ends_) {
      return;
    }
    auto const task = std::move(tasks_.front());
    tasks_.pop();
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    done_ += error ? 0 : 1;
    changed_.notify_all();
  }
}

std::int64_t OrderedThread::post(std::function<void()> task) {
  std::int64_t number = 0;
  {
    std::lock_guard const lock{mutex_};
    if (error_) {
      std::rethrow_exception(error_);
    }
    tasks_.push(std::move(task));
    number = ++posted_;
  }
  changed_.notify_all();
  return number;
}

void OrderedThread::wait(std::int64_t number) {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return done_ >= number || error_; });
  if (done_ < number) {
    std::rethrow_exception(error_);
  }
}

}  // namespace zeroth
