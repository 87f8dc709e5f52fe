// SPDX-License-Identifier: Apache-2.0
/// The status of all ranks as one rank knows it: the progress of its own communicators, which ranks have left them, and
/// the answers to status queries.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/leavers.hpp"
#include "comm/memberships.hpp"
#include "comm/peer_status.hpp"
#include "core/counter.hpp"

namespace zeroth::comm {

/// Shared by every HostJob whose ranks are processes; a transport carries the messages. Any thread may call any
/// function.
class PeerStatusTracker {
 public:
  /// Implement HostJob::enter(), leave() and who_left(). The transport informs the `others` of the communicator.
  void enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun);
  void leave(std::uint64_t communicator, std::size_t others);
  [[nodiscard]] std::vector<Leaver> who_left(std::uint64_t communicator) const;
  /// Another rank reported that it left.
  void note_leaver(std::uint64_t communicator, Leaver const& leaver);

  /// The answer to a query: the last transaction that this rank has begun on `communicator`; 0 if it is not in it.
  [[nodiscard]] std::uint64_t begun(std::uint64_t communicator) const;
  /// Asks `ranks`: `send` sends the query with the given number. Waits until all have answered, `patience` has passed,
  /// or `is_vain` returns true.
  [[nodiscard]] std::vector<PeerStatus> ask(std::vector<int> const& ranks, std::chrono::milliseconds patience,
                                            std::function<void(std::uint64_t number)> const& send,
                                            std::function<bool()> const& is_vain);
  /// Takes the answer to query `number`. Ignored if it comes too late.
  void note_answer(std::uint64_t number, PeerStatus const& place);

 private:
  struct Question {
    std::vector<PeerStatus> places;
    Counter answers;
  };

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::atomic<std::uint64_t> const*> begun_;
  Leavers leavers_;
  std::map<std::uint64_t, std::shared_ptr<Question>> questions_;
  std::uint64_t question_count_ = 0;
};

/// "no answer from rank 3 (of 'gather-group': ranks 2 and 3) and 2 more"; empty if all answered.
[[nodiscard]] std::string describe_silence(std::vector<PeerStatus> const& places, Memberships const& memberships);
/// All ranks of `world` except `rank`.
[[nodiscard]] std::vector<int> all_others(int rank, int world);

}  // namespace zeroth::comm
