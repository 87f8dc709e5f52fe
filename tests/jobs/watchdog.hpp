// SPDX-License-Identifier: Apache-2.0
/// Ends the process if a job does not end.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "support/sanitized.hpp"

namespace zeroth::testing::jobs {

/// The process may take two minutes from its start to its end: longer than an engine waits for its ranks.
class Watchdog {
 public:
  explicit Watchdog(std::string page) : thread_{[this, page = std::move(page)] { watch(page); }} {}
  Watchdog(Watchdog const&) = delete;
  Watchdog& operator=(Watchdog const&) = delete;
  ~Watchdog() {
    {
      std::lock_guard const lock{mutex_};
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

 private:
  void watch(std::string const& page) {
    std::unique_lock lock{mutex_};
    if (!ended_.wait_for(lock, std::chrono::seconds{sanitized ? 300 : 120}, [this] { return over_; })) {
      std::fputs(page.c_str(), stderr);
      std::_Exit(3);
    }
  }
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace zeroth::testing::jobs
