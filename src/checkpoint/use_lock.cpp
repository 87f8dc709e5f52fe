// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/use_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "zeroth/checkpoint/record.hpp"

namespace zeroth::checkpoint {

UseLock::UseLock(std::filesystem::path checkpoint, By by) : checkpoint_{std::move(checkpoint)} {
  descriptor_ = ::open(checkpoint_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  taken_ = descriptor_ >= 0 && ::flock(descriptor_, (by == By::reader ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 &&
           errno == EWOULDBLOCK;
}

UseLock::~UseLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void UseLock::expect_free() const {
  if (taken_) {
    throw DamagedError{fmt::format("checkpoint {}: is being removed", checkpoint_.string())};
  }
}

}  // namespace zeroth::checkpoint
