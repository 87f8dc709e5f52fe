// SPDX-License-Identifier: Apache-2.0
/// How a rank finds and joins rank 0's store.
#pragma once
#include <chrono>

#include "comm/store/connection.hpp"
#include "comm/store/store.hpp"

namespace zeroth::comm {

struct Joined {
  Connection connection;
  std::chrono::milliseconds heartbeat_timeout{};
  int port = 0;  ///< Rank 0's port.
};

/// The pause after a failed attempt, if the one before was `last`: 10 ms after the first attempt, for which `last` is
/// 0, then twice as long each time, and at most 1 s.
[[nodiscard]] std::chrono::milliseconds pause_after(std::chrono::milliseconds last) noexcept;

/// Connects, repeatedly with growing pauses, until rank 0 answers or the join timeout has passed. Blocks the calling
/// thread. Throws as Store's constructor does.
[[nodiscard]] Joined join_store(StoreOptions const& options);

}  // namespace zeroth::comm
