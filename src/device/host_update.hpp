// SPDX-License-Identifier: Apache-2.0
/// Updates by the host, of what is in its memory beside a GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "core/counter.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::device {

/// Threads that share an update: those of the team and who calls run(). They sleep in between.
class UpdateThreads {
 public:
  /// Of so many with the caller. Throws SystemError where there are no threads for them.
  explicit UpdateThreads(int threads);
  UpdateThreads(UpdateThreads const&) = delete;
  UpdateThreads& operator=(UpdateThreads const&) = delete;
  ~UpdateThreads();
  /// Does all of `shares`, of which there are at most as many as threads, and returns then. One caller at a time.
  void run(std::span<optim::UpdateArgs const> shares);

 private:
  void work(std::size_t share);
  void end() noexcept;

  std::span<optim::UpdateArgs const> shares_;  // of the current round; none: the team ends
  Counter begun_, ended_;                      // rounds; threads, in all rounds
  std::uint32_t rounds_ = 0;
  std::vector<std::thread> threads_;
};

/// An update as a value: what each thread has to do, and who does it.
struct HostUpdate {
  std::span<optim::UpdateArgs const> shares;
  UpdateThreads* team = nullptr;
};

/// As optim::update(), and parameters beside masters are written in any case and whole: where the update is skipped,
/// what masters round to, and zeros in no segment. Allocates nothing.
void update_whole(optim::UpdateArgs const& args);

}  // namespace zeroth::device
