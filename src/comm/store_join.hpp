/// How a rank finds rank 0's store and is let in.
#pragma once
#include <chrono>

#include "comm/connection.hpp"
#include "comm/store.hpp"

namespace zeroth::comm {

struct Joined {
  Connection connection;
  std::chrono::milliseconds heartbeat_timeout{};
};

/// Dials, again and again with growing pauses, until rank 0 answers or the join timeout has passed. Waits on the
/// calling thread. Throws as Store's constructor does.
[[nodiscard]] Joined join_store(StoreOptions const& options);

}  // namespace zeroth::comm
