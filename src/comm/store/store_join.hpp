// SPDX-License-Identifier: Apache-2.0
/// How a rank finds rank 0's store and is let in.
#pragma once
#include <chrono>

#include "comm/store/connection.hpp"
#include "comm/store/store.hpp"

namespace zeroth::comm {

struct Joined {
  Connection connection;
  std::chrono::milliseconds heartbeat_timeout{};
  int port = 0;  ///< At which rank 0 was.
};

/// How long to wait after an attempt that failed, if it was `last` after the one before: 10 ms after the first, which
/// is null, then twice as long each time, and at most 1 s.
[[nodiscard]] std::chrono::milliseconds pause_after(std::chrono::milliseconds last) noexcept;

/// Dials, again and again with growing pauses, until rank 0 answers or the join timeout has passed. Waits on the
/// calling thread. Throws as Store's constructor does.
[[nodiscard]] Joined join_store(StoreOptions const& options);

}  // namespace zeroth::comm
