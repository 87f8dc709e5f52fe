// SPDX-License-Identifier: Apache-2.0
/// How much memory the system gives this process, as bench/peers/resident.py counts it.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace zeroth::bench {

/// A size in /proc/self/status, in bytes: "VmRSS" is what is resident, "VmHWM" its peak, "RssFile" pages of files.
[[nodiscard]] inline std::int64_t resident(std::string const& name) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) {
      return 1024 * std::strtoll(line.c_str() + name.size() + 1, nullptr, 10);
    }
  }
  return 0;
}
/// The peak starts again.
inline void forget_peak() { std::ofstream{"/proc/self/clear_refs"} << "5"; }

/// Above what is resident when this is made. Pages of files do not count: libraries are touched as their code first
/// runs, and belong to all processes together. They stay once they are in, so the peak without those at the end is that
/// of the rest, or slightly less.
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
