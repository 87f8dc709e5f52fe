// SPDX-License-Identifier: Apache-2.0
/// What a rank has handed to collectives, by what it was for: of comms_logger.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// Names are those of spans: "gather", "publish", "reduce", "decide", and the unit, whose names outlive this.
class CallLog {
 public:
  struct Entry {
    std::string_view what, unit;
    comm::Operation operation = comm::Operation::barrier;
    std::int64_t count = 0;  ///< Transactions.
    std::int64_t bytes = 0;  ///< Of what all ranks bring or get together.
    double sent = 0;         ///< Of those, what a ring sends from each rank.
  };

  void add(std::string_view what, std::string_view unit, std::span<comm::Collective const> collectives, int world);
  [[nodiscard]] std::span<Entry const> entries() const noexcept { return entries_; }  ///< In the order of first calls.

 private:
  std::vector<Entry> entries_;
};

}  // namespace zeroth::shard
