// SPDX-License-Identifier: Apache-2.0
/// Bytes passed to collectives, with the distance that they moved, and to disks.
#pragma once
#include <cstdint>

namespace zeroth::shard {

/// Bytes of the whole data of collectives, all ranks' pieces together.
struct MovedBytes {
  std::int64_t all = 0;
  std::int64_t across_groups = 0;  ///< The part of `all` that moved between groups; zero if there is only one.

  void add(std::int64_t bytes, bool moves_across_groups) noexcept {
    all += bytes;
    across_groups += moves_across_groups ? bytes : 0;
  }
  friend MovedBytes operator+(MovedBytes const& a, MovedBytes const& b) noexcept {
    return {a.all + b.all, a.across_groups + b.across_groups};
  }
  friend MovedBytes operator-(MovedBytes const& a, MovedBytes const& b) noexcept {
    return {a.all - b.all, a.across_groups - b.across_groups};
  }
};

/// Bytes that updates and gathers have transferred from and to a disk so far.
struct DiskTraffic {
  std::int64_t read_bytes = 0, written_bytes = 0;
};

}  // namespace zeroth::shard
