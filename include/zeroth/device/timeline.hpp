// SPDX-License-Identifier: Apache-2.0
/// What a rank's streams were busy with, and when: for pictures of a step.
#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Microseconds are those of the device: of the machine's monotonic clock, or of a simulation.
struct Span {
  /// "compute", "gather", "reduce", "save", "read", "write" or "update"; of a pipeline also "receive input",
  /// "send output", "receive gradient" and "send gradient"
  std::string stream;
  /// "forward", "backward", "gather", "reduce", "add up", "update", "publish", "decide", "save", "read", "write",
  /// "send", "receive" or "wait"
  std::string what;
  std::string unit;     ///< Empty if it is about none.
  double begin_us = 0;  ///< When the stream came to it.
  double end_us = 0;    ///< When it was done.
};

/// Where spans are kept. Streams that still have spans to add share it with the timeline, whichever ends first.
class ZEROTH_EXPORT SpanLog {
 public:
  void add(Span span);                           ///< Any thread; allocates.
  [[nodiscard]] std::vector<Span> copy() const;  ///< All spans so far, in the order in which they came.
  [[nodiscard]] std::vector<Span> take();        ///< The same, and none are left.

 private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

/// The spans of one rank. Any thread may call anything. Adding allocates. It may end while streams still add to it.
class ZEROTH_EXPORT Timeline {
 public:
  Timeline() = default;
  Timeline(Timeline const&) = delete;
  Timeline& operator=(Timeline const&) = delete;
  ~Timeline() = default;
  void add(Span span) { log_->add(std::move(span)); }              ///< Spans may come in any order.
  [[nodiscard]] std::vector<Span> spans() const;                   ///< By begin.
  [[nodiscard]] std::vector<Span> take() { return log_->take(); }  ///< As they came; none are left.
  /// Where the spans are kept, for streams that may outlive the timeline.
  [[nodiscard]] std::shared_ptr<SpanLog> const& log() const noexcept { return log_; }
  /// Events of the Trace Event Format that Chrome and Perfetto read: the rank is the process, a stream is a thread.
  /// Text of JSON objects with commas between, so that what ranks gather can be joined.
  [[nodiscard]] std::string to_trace_events(int rank) const;

 private:
  std::shared_ptr<SpanLog> log_ = std::make_shared<SpanLog>();
};

/// The text that chrome://tracing and ui.perfetto.dev open, from what to_trace_events() gave for each rank.
[[nodiscard]] ZEROTH_EXPORT std::string to_trace(std::span<std::string const> events_of_ranks);
/// Writes it beside `file` first, then renames. Throws SystemError naming the file.
ZEROTH_EXPORT void write_trace(std::filesystem::path const& file, std::span<std::string const> events_of_ranks);

}  // namespace zeroth
