// SPDX-License-Identifier: Apache-2.0
/// Who is where, as far as one rank knows: how far its own communicators are, who has left them, and what others answer
/// when they are asked.
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

/// What is the same in every HostJob whose ranks are processes; a transport carries the words. Any thread may call
/// anything.
class PeerStatusTracker {
 public:
  /// As HostJob::enter(), leave() and who_left(); `others` of the communicator hear from the transport.
  void enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun);
  void leave(std::uint64_t communicator, std::size_t others);
  [[nodiscard]] std::vector<Leaver> who_left(std::uint64_t communicator) const;
  /// Another rank said that it left.
  void note_leaver(std::uint64_t communicator, Leaver const& leaver);

  /// The answer to a question: what this rank has begun on `communicator`; 0 if it is not on it.
  [[nodiscard]] std::uint64_t begun(std::uint64_t communicator) const;
  /// Asks `ranks`: `send` carries the question with the number that it is given. Waits until all have answered, for
  /// `patience` at most, or until `is_vain`.
  [[nodiscard]] std::vector<PeerStatus> ask(std::vector<int> const& ranks, std::chrono::milliseconds patience,
                                            std::function<void(std::uint64_t number)> const& send,
                                            std::function<bool()> const& is_vain);
  /// The answer to question `number`. Passed over if it comes too late.
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
/// All ranks of `world` but `rank`.
[[nodiscard]] std::vector<int> all_others(int rank, int world);

}  // namespace zeroth::comm
