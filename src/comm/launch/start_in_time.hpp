// SPDX-License-Identifier: Apache-2.0
/// A watchdog for ranks that wait for peers at the start.
#pragma once
#include <chrono>
#include <optional>
#include <thread>

#include "comm/launch/environment.hpp"
#include "core/counter.hpp"

namespace zeroth::comm {

/// While MPI starts, and while it makes a job's first communicator, it waits for all ranks without a timeout, and does
/// not report which ones are missing. If this object still lives after `timeout`, it reports that on stderr and ends
/// the process with status 1; the launcher ends the others.
class StartInTime {
 public:
  StartInTime(std::optional<LaunchedRank> launched, std::chrono::milliseconds timeout);
  ~StartInTime();
  StartInTime(StartInTime const&) = delete;
  StartInTime& operator=(StartInTime const&) = delete;

 private:
  void watch();

  std::optional<LaunchedRank> launched_;
  std::chrono::milliseconds timeout_;
  Counter over_;
  std::thread thread_;
};

}  // namespace zeroth::comm
