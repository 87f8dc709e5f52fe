// SPDX-License-Identifier: Apache-2.0
/// What a rank's streams were busy with, and when: for pictures of a step.
#pragma once
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Microseconds are those of the device: of the machine's monotonic clock, or of a simulation.
struct Span {
  std::string stream;  ///< "compute", "gather", "reduce", "save", "read", "write", "update"
  /// "forward", "backward", "gather", "reduce", "add up", "update", "publish", "decide", "save", "read", "write" or
  /// "wait"
  std::string what;
  std::string unit;     ///< Empty if it is about none.
  double begin_us = 0;  ///< When the stream came to it.
  double end_us = 0;    ///< When it was done.
};

/// The spans of one rank. Any thread may call anything. Adding allocates.
class ZEROTH_EXPORT Timeline {
 public:
  void add(Span span);                            ///< Spans may come in any order.
  [[nodiscard]] std::vector<Span> spans() const;  ///< By begin.
  [[nodiscard]] std::vector<Span> take();         ///< As they came; none are left.
  /// Events of the Trace Event Format that Chrome and Perfetto read: the rank is the process, a stream is a thread.
  /// Text of JSON objects with commas between, so that what ranks gather can be joined.
  [[nodiscard]] std::string to_trace_events(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

/// The text that chrome://tracing and ui.perfetto.dev open, from what to_trace_events() gave for each rank.
[[nodiscard]] ZEROTH_EXPORT std::string to_trace(std::span<std::string const> events_of_ranks);
/// Writes it beside `file` first, then renames. Throws SystemError naming the file.
ZEROTH_EXPORT void write_trace(std::filesystem::path const& file, std::span<std::string const> events_of_ranks);

}  // namespace zeroth
