// SPDX-License-Identifier: Apache-2.0
/// Updates on the host of states in its memory, for a GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "core/counter.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::device {

/// Threads that share an update: a team and the caller of run(). The team sleeps in between.
class UpdateThreads {
 public:
  /// Uses `threads` threads, including the caller. Throws SystemError if they cannot be started.
  explicit UpdateThreads(int threads);
  UpdateThreads(UpdateThreads const&) = delete;
  UpdateThreads& operator=(UpdateThreads const&) = delete;
  ~UpdateThreads();
  /// Runs all `shares`, at most one per thread, then returns. One caller at a time.
  void run(std::span<optim::UpdateArgs const> shares);

 private:
  void work(std::size_t share);
  void end() noexcept;

  std::span<optim::UpdateArgs const> shares_;  // for the current round; empty: the team ends
  Counter begun_, ended_;                      // begun_ counts rounds; ended_ counts threads, over all rounds
  std::uint32_t rounds_ = 0;
  std::vector<std::thread> threads_;
};

/// An update as a value: the work of each thread, and the team.
struct HostUpdate {
  std::span<optim::UpdateArgs const> shares;
  UpdateThreads* team = nullptr;
};

/// Like optim::update(), but always writes all parameters that are not masters: the rounded masters if the update is
/// skipped, and zeros outside of segments. Allocates nothing.
void update_whole(optim::UpdateArgs const& args);

}  // namespace zeroth::device
