// SPDX-License-Identifier: Apache-2.0
/// What a rank did last: a ring of records that is written as JSON when a job fails.
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

/// Names are copied, so that a record outlives what it speaks of.
struct Record {
  char what[32] = {};            ///< "all_gather", "wait", "release", "update" ...
  char purpose[24] = {};         ///< "forward", "backward", "step" ...
  char unit[48] = {};            ///< Cut off if longer.
  char communicator[16] = {};    ///< Empty for what is no collective.
  std::uint64_t sequence = 0;    ///< On that communicator, from 1.
  std::int64_t count = 0;        ///< Elements, as Collective::count.
  Dtype dtype = Dtype::byte;     ///< Of those.
  std::int64_t enqueued_ns = 0;  ///< Since the recorder was made, as are the next.
  std::int64_t started_ns = 0;   ///< 0: not yet.
  std::int64_t finished_ns = 0;  ///< 0: not yet.
};

/// One rank's ring. Any thread may call anything. No allocation after construction.
class ZEROTH_EXPORT FlightRecorder {
 public:
  static constexpr std::size_t usual_capacity = 1024;  ///< Some steps of a small model, a step of a large one.
  /// A ring of `capacity` records for rank `rank` of `world`.
  explicit FlightRecorder(int rank, int world, std::size_t capacity = usual_capacity);
  /// Returns a ticket for started() and finished(); the oldest record is overwritten when the ring is full.
  std::uint64_t enqueue(Record const& record) noexcept;
  void started(std::uint64_t ticket) noexcept;   ///< Now; nothing if the record was overwritten.
  void finished(std::uint64_t ticket) noexcept;  ///< As started().
  /// A moment: enqueued, started and finished at once.
  void note(std::string_view what, std::string_view purpose, std::string_view unit) noexcept;
  [[nodiscard]] std::vector<Record> snapshot() const;  ///< Oldest first.
  [[nodiscard]] std::int64_t now_ns() const noexcept;  ///< On the clock of the records.
  /// What write() writes.
  [[nodiscard]] std::string to_json(std::string_view reason) const;
  /// Writes to a file beside `path` first, then renames. Throws SystemError with the path and the reason.
  void write(std::filesystem::path const& path, std::string_view reason) const;

 private:
  [[nodiscard]] Record* find(std::uint64_t ticket) noexcept;  ///< Under the lock; null if overwritten.

  int rank_, world_;
  Clock::time_point origin_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Record> ring_;
  std::uint64_t next_ = 0;
};

}  // namespace zeroth::comm
