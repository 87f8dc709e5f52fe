// SPDX-License-Identifier: Apache-2.0
/// Simulates a slow disk.
#pragma once
#include "support/folder.hpp"
#ifdef ZEROTH_ODD_DISK
#include "support/fail_points.hpp"
#endif

namespace zeroth::testing {

/// While it lives, reads and writes of files in a folder sleep at random. Has no effect if a sanitizer intercepts those
/// calls.
class SleepyDisk {
 public:
  SleepyDisk([[maybe_unused]] Folder const& folder, [[maybe_unused]] unsigned seed) {
#ifdef ZEROTH_ODD_DISK
    FailPoints::odd_disk({.folder = folder.path(), .seed = seed});
#endif
  }
  SleepyDisk(SleepyDisk const&) = delete;
  SleepyDisk& operator=(SleepyDisk const&) = delete;
  ~SleepyDisk() {
#ifdef ZEROTH_ODD_DISK
    FailPoints::odd_disk({});
#endif
  }
};

}  // namespace zeroth::testing
