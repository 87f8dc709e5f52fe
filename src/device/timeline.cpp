// SPDX-License-Identifier: Apache-2.0
#include "zeroth/device/timeline.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "zeroth/tool/core/whole_file.hpp"

namespace zeroth {
namespace {

using Json = nlohmann::ordered_json;

/// Streams have the same place in every picture: compute is above the streams that serve it.
int thread_of(std::string_view stream) noexcept {
  constexpr std::string_view order[] = {"compute", "gather",      "reduce",       "read",
                                        "write",   "read shards", "write shards", "save"};
  auto const* const found = std::find(std::begin(order), std::end(order), stream);
  return static_cast<int>(found - std::begin(order));
}

Json named(char const* what, int rank, int thread, std::string const& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void SpanLog::add(Span span) {
  std::lock_guard const lock{mutex_};
  spans_.push_back(std::move(span));
}

std::vector<Span> SpanLog::copy() const {
  std::lock_guard const lock{mutex_};
  return spans_;
}

std::vector<Span> SpanLog::take() {
  std::lock_guard const lock{mutex_};
  return std::exchange(spans_, {});
}

std::vector<Span> Timeline::spans() const {
  auto sorted = log_->copy();
  std::stable_sort(sorted.begin(), sorted.end(), [](Span const& a, Span const& b) { return a.begin_us < b.begin_us; });
  return sorted;
}

std::string Timeline::to_trace_events(int rank) const {
  auto const all = spans();
  std::string text = named("process_name", rank, 0, fmt::format("rank {}", rank)).dump();
  std::vector<std::string_view> streams;
  for (auto const& span : all) {
    if (std::find(streams.begin(), streams.end(), span.stream) == streams.end()) {
      streams.push_back(span.stream);
      text += ",\n" + named("thread_name", rank, thread_of(span.stream), span.stream).dump();
    }
  }
  for (auto const& span : all) {
    Json const event{{"ph", "X"},
                     {"name", span.unit.empty() ? span.what : fmt::format("{} {}", span.what, span.unit)},
                     {"cat", span.what},
                     {"pid", rank},
                     {"tid", thread_of(span.stream)},
                     {"ts", span.begin_us},
                     {"dur", span.end_us - span.begin_us}};
    text += ",\n" + event.dump();
  }
  return text;
}

std::string to_trace(std::span<std::string const> events_of_ranks) {
  return fmt::format("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n", fmt::join(events_of_ranks, ",\n"));
}

void write_trace(std::filesystem::path const& file, std::span<std::string const> events_of_ranks) {
  write_whole_file("trace file", file, to_trace(events_of_ranks));
}

}  // namespace zeroth
