// SPDX-License-Identifier: Apache-2.0
/// Resident memory of this process, measured like bench/peers/resident.py.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace zeroth::bench {

/// A size in /proc/self/status, in bytes: "VmRSS" is resident memory, "VmHWM" its peak, "RssFile" pages of files.
[[nodiscard]] inline std::int64_t resident(std::string const& name) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) {
      return 1024 * std::strtoll(line.c_str() + name.size() + 1, nullptr, 10);
    }
  }
  return 0;
}
/// Resets the peak.
inline void forget_peak() { std::ofstream{"/proc/self/clear_refs"} << "5"; }

/// Growth over the memory resident at construction. Pages of files do not count: libraries are paged in as their code
/// first runs, and are shared by all processes. They stay once they are in, so the peak minus the final file pages is
/// the peak of the rest, or slightly less.
class Growth {
 public:
  Growth() {
    forget_peak();
    idle_ = resident("VmRSS") - resident("RssFile");
  }
  [[nodiscard]] std::int64_t peak() const { return resident("VmHWM") - resident("RssFile") - idle_; }

 private:
  std::int64_t idle_ = 0;
};

}  // namespace zeroth::bench
