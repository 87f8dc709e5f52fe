// SPDX-License-Identifier: Apache-2.0
/// The resident memory of this process.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace zeroth::testing {

inline std::int64_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// The peak since forget_peak().
inline std::int64_t peak_resident_bytes() {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;) {
    if (std::int64_t kib = 0; word == "VmHWM:" && status >> kib) {
      return kib * 1024;
    }
  }
  return 0;
}
inline bool forget_peak() { return static_cast<bool>(std::ofstream{"/proc/self/clear_refs"} << "5" << std::flush); }

}  // namespace zeroth::testing
