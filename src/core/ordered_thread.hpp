// SPDX-License-Identifier: Apache-2.0
/// A thread that does one thing after the other, for who waits for some of them.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <queue>
#include <string_view>
#include <thread>

namespace zeroth {

/// Calls are one thread's.
class OrderedThread {
 public:
  /// Throws SystemError where there is no thread for `what`. It speaks as the rank of who makes it.
  explicit OrderedThread(std::string_view what);
  OrderedThread(OrderedThread const&) = delete;
  OrderedThread& operator=(OrderedThread const&) = delete;
  ~OrderedThread();  ///< Waits for the task that is being done, and passes over the others.
  /// Enqueues a task. Returns its number, from 1 on. Throws what an earlier one has thrown, behind which none is done.
  std::int64_t post(std::function<void()> task);
  /// Until task `number` is done; 0 is none. Throws what kept it from that.
  void wait(std::int64_t number);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> tasks_;
  std::int64_t posted_ = 0, done_ = 0;
  std::exception_ptr error_;  // of task done_ + 1
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace zeroth
