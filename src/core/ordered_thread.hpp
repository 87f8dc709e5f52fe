// SPDX-License-Identifier: Apache-2.0
/// A thread that runs tasks one after the other, and lets its owner wait for any of them.
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

/// All calls must come from one thread.
class OrderedThread {
 public:
  /// Throws SystemError if no thread can be started for `what`. The thread logs as the rank of its creator.
  explicit OrderedThread(std::string_view what);
  OrderedThread(OrderedThread const&) = delete;
  OrderedThread& operator=(OrderedThread const&) = delete;
  ~OrderedThread();  ///< Waits for the running task and drops the queued ones.
  /// Enqueues a task and returns its number, from 1 on. Rethrows the exception of an earlier task, after which no task
  /// runs.
  std::int64_t post(std::function<void()> task);
  /// Blocks until task `number` is done; 0 returns at once. Throws the exception that kept it from running.
  void wait(std::int64_t number);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> tasks_;
  std::int64_t posted_ = 0, done_ = 0;
  std::exception_ptr error_;  // thrown by task done_ + 1
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace zeroth
