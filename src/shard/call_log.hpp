// SPDX-License-Identifier: Apache-2.0
/// Counts what a rank passes to collectives, by purpose, for comms_logger.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// Names are those of spans ("gather", "publish", "reduce", "decide") and of units. They must outlive the log.
class CallLog {
 public:
  struct Entry {
    std::string_view what, unit;
    comm::Operation operation = comm::Operation::barrier;
    std::int64_t count = 0;  ///< Transactions.
    std::int64_t bytes = 0;  ///< Size of the whole data, all ranks' pieces together.
    double sent = 0;         ///< Bytes that each rank sends in a ring algorithm. For a message, all of its bytes.
  };

  void add(std::string_view what, std::string_view unit, std::span<comm::Collective const> collectives, int world);
  [[nodiscard]] std::span<Entry const> entries() const noexcept { return entries_; }  ///< In the order of first calls.

 private:
  std::vector<Entry> entries_;
};

}  // namespace zeroth::shard
