// SPDX-License-Identifier: Apache-2.0
/// The thread that sees what nobody waits for: errors inside NCCL, transactions that do not end, and the job's end.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/nccl_link.hpp"

namespace zeroth::comm {

/// One thread for all communicators of a rank. When the job has failed it fails the devices that have transactions on
/// their way, aborts every communicator, and ends.
class NcclWatch {
 public:
  /// What it is told and asks. Called on its thread.
  struct Hooks {
    std::function<std::optional<std::string>()> failure;  ///< Why the job failed, once it has.
    std::function<void(std::string const&)> fail;         ///< Fails it. Returns when failure() says so.
    /// In words: `link`'s transaction `late` goes on for too long.
    std::function<std::string(NcclLink const& link, NcclPending::Late const& late)> explain;
  };
  NcclWatch(int rank, int world, int gpu, Hooks hooks);
  /// Where NCCL does not come back from an abort, the thread is left behind, and calls no hook any more.
  ~NcclWatch();
  NcclWatch(NcclWatch const&) = delete;
  NcclWatch& operator=(NcclWatch const&) = delete;

  void enter(std::shared_ptr<NcclLink> link);
  void leave(NcclLink const& link);
  [[nodiscard]] std::vector<std::shared_ptr<NcclLink>> links() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's as well
};

}  // namespace zeroth::comm
