// SPDX-License-Identifier: Apache-2.0
#include "comm/abort_state.hpp"

namespace zeroth::comm {

void AbortState::abort(std::string const& reason) noexcept {
  std::scoped_lock const lock{mutex_};
  if (aborted()) {
    return;
  }
  try {
    reason_ = reason;
  } catch (...) {  // without memory for the reason, the job ends anyway
  }
  aborted_.store(true, std::memory_order_release);
}

std::string AbortState::reason() const {
  std::scoped_lock const lock{mutex_};
  return reason_;
}

}  // namespace zeroth::comm
