// SPDX-License-Identifier: Apache-2.0
/// The flight recorder: a ring of a rank's last actions, written as JSON when a job fails.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/clock.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth::comm {

/// One action. Names are copied, so that a record outlives what it describes.
struct Record {
  char what[32] = {};            ///< "all_gather", "wait", "release", "update" ...
  char purpose[24] = {};         ///< "forward", "backward", "step" ...
  char unit[48] = {};            ///< Truncated if longer.
  char communicator[16] = {};    ///< Empty if it is not a collective.
  std::uint64_t sequence = 0;    ///< Position on that communicator, from 1.
  std::int64_t count = 0;        ///< Elements: Collective::count.
  Dtype dtype = Dtype::byte;     ///< Their dtype.
  std::int64_t enqueued_ns = 0;  ///< Nanoseconds since the recorder was made.
  std::int64_t started_ns = 0;   ///< Nanoseconds since then; 0 if it has not started.
  std::int64_t finished_ns = 0;  ///< Nanoseconds since then; 0 if it has not finished.
};

/// One rank's ring of records. All calls are thread-safe. Does not allocate after construction.
class ZEROTH_EXPORT FlightRecorder {
 public:
  static constexpr std::size_t usual_capacity = 1024;  ///< Some steps of a small model, or one step of a large one.
  /// Makes a ring of `capacity` records for rank `rank` of `world`.
  explicit FlightRecorder(int rank, int world, std::size_t capacity = usual_capacity);
  /// Adds a record, and returns a ticket for started() and finished(). Overwrites the oldest record if the ring is
  /// full.
  std::uint64_t enqueue(Record const& record) noexcept;
  /// Sets the start time to now. Does nothing if the record was overwritten.
  void started(std::uint64_t ticket) noexcept;
  /// Sets the finish time to now. Does nothing if the record was overwritten.
  void finished(std::uint64_t ticket) noexcept;
  /// Adds an instantaneous action: enqueued, started and finished at once.
  void note(std::string_view what, std::string_view purpose, std::string_view unit) noexcept;
  [[nodiscard]] std::vector<Record> snapshot() const;  ///< Oldest first.
  [[nodiscard]] std::int64_t now_ns() const noexcept;  ///< The time on the records' clock.
  /// The text that write() writes.
  [[nodiscard]] std::string to_json(std::string_view reason) const;
  /// Writes atomically, by a temporary file next to `path` and a rename. Throws SystemError with the path and the
  /// reason.
  void write(std::filesystem::path const& path, std::string_view reason) const;

 private:
  [[nodiscard]] Record* find(std::uint64_t ticket) noexcept;  ///< Call with the lock held. Null if overwritten.

  int rank_, world_;
  Clock::time_point origin_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Record> ring_;
  std::uint64_t next_ = 0;
};

}  // namespace zeroth::comm
