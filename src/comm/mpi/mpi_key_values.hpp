// SPDX-License-Identifier: Apache-2.0
/// Keys and values of processes of MPI: rank 0's MPI thread has them, and control messages carry calls and answers.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "comm/job_failure.hpp"
#include "comm/key_values.hpp"
#include "comm/mpi/mpi_control.hpp"
#include "comm/mpi/mpi_thread.hpp"
#include "core/counter.hpp"

namespace zeroth::comm {

class MpiKeyValues final : public KeyValues {
 public:
  struct Ways {
    MpiThread& thread;
    std::function<void(int to, ControlMessage const& message)> send;  ///< Called on the MPI thread.
    std::function<std::optional<JobFailure>()> failure;               ///< Any thread.
  };
  MpiKeyValues(int rank, Ways ways) : rank_{rank}, ways_{std::move(ways)} {}

  [[nodiscard]] KeyValueAnswer call(KeyValueCall const& call) override;

  // on the MPI thread
  /// A part of a call, on rank 0, or of an answer.
  void take(ControlMessage const& message);
  /// Answers calls whose time is up. Returns whether there were any.
  bool expire();

 private:
  struct Pending {
    KeyValueAnswer answer;
    Counter done;
  };
  using Caller = std::pair<int, std::uint64_t>;  // a rank, and the number of its call

  void send_bytes(ControlMessage::Kind kind, int to, std::uint64_t number, std::string_view bytes);
  void serve(Caller const& caller, std::string_view bytes);
  void send_answers();
  void end(std::uint64_t number, KeyValueAnswer answer);

  int rank_;
  Ways ways_;
  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Pending>> pending_;  // by number

  // used by the MPI thread
  std::map<std::pair<bool, Caller>, std::string> partial_;  // of which more parts follow; true: an answer
  KeyValueTable table_;                                     // rank 0's
  KeyValueTable::Ticket last_ticket_ = 0;
  std::map<KeyValueTable::Ticket, Caller> waiting_;
};

}  // namespace zeroth::comm
