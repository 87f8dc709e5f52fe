// SPDX-License-Identifier: Apache-2.0
/// What was handed to collectives, and how far it went; and to disks.
#pragma once
#include <cstdint>

namespace zeroth::shard {

/// Of the whole that all ranks of a collective bring or get together.
struct MovedBytes {
  std::int64_t all = 0;
  std::int64_t across_groups = 0;  ///< Of `all`, what ranks of different groups moved; zero where there is one group.

  void add(std::int64_t bytes, bool moves_across_groups) noexcept {
    all += bytes;
    across_groups += moves_across_groups ? bytes : 0;
  }
  friend MovedBytes operator+(MovedBytes const& a, MovedBytes const& b) noexcept {
    return {a.all + b.all, a.across_groups + b.across_groups};
  }
};

/// What updates and gathers have handed to a disk so far.
struct DiskTraffic {
  std::int64_t read_bytes = 0, written_bytes = 0;
};

}  // namespace zeroth::shard
