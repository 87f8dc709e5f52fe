// SPDX-License-Identifier: Apache-2.0
/// The thread that detects what no other thread waits for: errors inside NCCL, transactions that time out, and the
/// job's failure.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/nccl_link.hpp"

namespace zeroth::comm {

/// One thread for all communicators of a rank. When the job has failed, it fails the devices that have transactions in
/// flight, aborts every communicator, and ends.
class NcclWatch {
 public:
  /// Functions that it calls on its thread.
  struct Hooks {
    std::function<std::optional<std::string>()> failure;  ///< Why the job has failed, or nullopt.
    std::function<void(std::string const&)> fail;         ///< Fails the job. Returns when failure() reports it.
    /// Describes `link`'s transaction `late`, which has timed out.
    std::function<std::string(NcclLink const& link, NcclPending::Late const& late)> explain;
  };
  NcclWatch(int rank, int world, int gpu, Hooks hooks);
  /// If NCCL does not return from an abort, the thread is abandoned, and calls no more hooks.
  ~NcclWatch();
  NcclWatch(NcclWatch const&) = delete;
  NcclWatch& operator=(NcclWatch const&) = delete;

  void enter(std::shared_ptr<NcclLink> link);
  void leave(NcclLink const& link);
  [[nodiscard]] std::vector<std::shared_ptr<NcclLink>> links() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace zeroth::comm
