// SPDX-License-Identifier: Apache-2.0
/// When a rank's streams were busy, and with what: for pictures of a step.
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

/// A period of work on a stream. Times are microseconds of the device's clock: the machine's monotonic clock, or a
/// simulated one.
struct Span {
  /// "compute", "gather", "reduce", "save", "read", "write" or "update"; in a pipeline also "receive input", "send
  /// output", "receive gradient" and "send gradient".
  std::string stream;
  /// "forward", "backward", "gather", "reduce", "add up", "update", "publish", "decide", "save", "read", "write",
  /// "send", "receive" or "wait".
  std::string what;
  std::string unit;     ///< Empty if it concerns no unit.
  double begin_us = 0;  ///< When the stream reached it.
  double end_us = 0;    ///< When it was done.
};

/// Holds spans. Shared by the timeline and by streams that still add spans, so either may be destroyed first.
class ZEROTH_EXPORT SpanLog {
 public:
  void add(Span span);                           ///< Any thread. Allocates.
  [[nodiscard]] std::vector<Span> copy() const;  ///< All spans so far, in the order of adding.
  [[nodiscard]] std::vector<Span> take();        ///< Removes and returns all spans.

 private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

/// The spans of one rank. All calls are thread-safe. Adding allocates. May be destroyed while streams still add spans.
class ZEROTH_EXPORT Timeline {
 public:
  Timeline() = default;
  Timeline(Timeline const&) = delete;
  Timeline& operator=(Timeline const&) = delete;
  ~Timeline() = default;
  void add(Span span) { log_->add(std::move(span)); }  ///< Spans may be added in any order.
  [[nodiscard]] std::vector<Span> spans() const;       ///< All spans, sorted by begin.
  /// Removes and returns all spans, in the order of adding.
  [[nodiscard]] std::vector<Span> take() { return log_->take(); }
  /// The container of the spans, for streams that may outlive the timeline.
  [[nodiscard]] std::shared_ptr<SpanLog> const& log() const noexcept { return log_; }
  /// Events in the Trace Event Format of Chrome and Perfetto; the rank is the process, a stream is a thread. Returns
  /// JSON objects separated by commas, so that the texts of several ranks can be joined.
  [[nodiscard]] std::string to_trace_events(int rank) const;

 private:
  std::shared_ptr<SpanLog> log_ = std::make_shared<SpanLog>();
};

/// Makes the text that chrome://tracing and ui.perfetto.dev open from each rank's to_trace_events().
[[nodiscard]] ZEROTH_EXPORT std::string to_trace(std::span<std::string const> events_of_ranks);
/// Writes that text atomically, by a temporary file and a rename. Throws SystemError naming the file.
ZEROTH_EXPORT void write_trace(std::filesystem::path const& file, std::span<std::string const> events_of_ranks);

}  // namespace zeroth
