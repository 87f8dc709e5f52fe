// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/flight_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "comm/record.hpp"
#include "zeroth/tool/core/whole_file.hpp"

namespace zeroth::comm {
namespace {

nlohmann::ordered_json time_or_null(std::int64_t ns) {
  return ns == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(ns);
}

nlohmann::ordered_json to_object(Record const& record) {
  nlohmann::ordered_json object{{"what", record.what}, {"purpose", record.purpose}, {"unit", record.unit}};
  if (record.communicator[0] != '\0') {
    object["communicator"] = record.communicator;
    object["sequence"] = record.sequence;
    object["count"] = record.count;
    object["dtype"] = name_of(record.dtype);
  }
  object["enqueued_ns"] = time_or_null(record.enqueued_ns);
  object["started_ns"] = time_or_null(record.started_ns);
  object["finished_ns"] = time_or_null(record.finished_ns);
  return object;
}

}  // namespace

FlightRecorder::FlightRecorder(int rank, int world, std::size_t capacity)
    : rank_{rank}, world_{world}, ring_(std::max<std::size_t>(capacity, 1)) {}

std::int64_t FlightRecorder::now_ns() const noexcept {
  // 0 means "not yet", so the first nanosecond is 1.
  return 1 + std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - origin_).count();
}

std::uint64_t FlightRecorder::enqueue(Record const& record) noexcept {
  auto const now = now_ns();
  std::scoped_lock const lock{mutex_};
  Record& entry = ring_[next_ % ring_.size()];
  entry = record;
  entry.enqueued_ns = now;
  return next_++;
}

Record* FlightRecorder::find(std::uint64_t ticket) noexcept {
  bool const overwritten = next_ - ticket > ring_.size();
  return overwritten ? nullptr : &ring_[ticket % ring_.size()];
}

void FlightRecorder::started(std::uint64_t ticket) noexcept {
  auto const now = now_ns();
  std::scoped_lock const lock{mutex_};
  if (Record* const record = find(ticket)) {
    record->started_ns = now;
  }
}

void FlightRecorder::finished(std::uint64_t ticket) noexcept {
  auto const now = now_ns();
  std::scoped_lock const lock{mutex_};
  if (Record* const record = find(ticket)) {
    record->finished_ns = now;
  }
}

/// Writes in place and reads the clock once, because an engine notes every unit that it opens and closes.
void FlightRecorder::note(std::string_view what, std::string_view purpose, std::string_view unit) noexcept {
  auto const now = now_ns();
  std::scoped_lock const lock{mutex_};
  Record& entry = ring_[next_++ % ring_.size()];
  entry = {};
  copy_name(entry.what, what);
  copy_name(entry.purpose, purpose);
  copy_name(entry.unit, unit);
  entry.enqueued_ns = entry.started_ns = entry.finished_ns = now;
}

std::vector<Record> FlightRecorder::snapshot() const {
  std::vector<Record> records(ring_.size());  // before the lock: the rank's own thread may be waiting for it
  std::scoped_lock const lock{mutex_};
  std::uint64_t const count = std::min<std::uint64_t>(next_, ring_.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    records[i] = ring_[(next_ - count + i) % ring_.size()];
  }
  records.resize(count);
  return records;
}

std::string FlightRecorder::to_json(std::string_view reason) const {
  auto records = nlohmann::ordered_json::array();
  for (auto const& record : snapshot()) {
    records.push_back(to_object(record));
  }
  nlohmann::ordered_json const whole{
      {"rank", rank_}, {"world", world_}, {"reason", reason}, {"now_ns", now_ns()}, {"records", std::move(records)}};
  // Names that were cut off may end inside a character, so invalid UTF-8 is replaced, not rejected.
  return whole.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void FlightRecorder::write(std::filesystem::path const& path, std::string_view reason) const {
  write_whole_file(fmt::format("the flight record of rank {},", rank_), path, to_json(reason) + '\n',
                   Outlives::process);  // the process may be killed a second later
}

}  // namespace zeroth::comm
