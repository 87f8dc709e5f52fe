// SPDX-License-Identifier: Apache-2.0
#include "engine/session.hpp"

#include <fmt/format.h>

namespace zeroth::engine {

void Session::claim(std::filesystem::path const& folder) {
  if (!claimed || !claimed->holds(folder)) {
    claimed.reset();  // release the lock first: `folder` may be the same folder by another name
    claimed = std::make_unique<checkpoint::FolderLock>(folder, fmt::format("{:016x}", run_id));
  }
}

void Session::await_saved() const {
  if (checkpoints) {
    checkpoints->await_read();
  }
}

}  // namespace zeroth::engine
