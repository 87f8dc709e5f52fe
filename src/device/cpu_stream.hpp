// SPDX-License-Identifier: Apache-2.0
/// Streams and events of the CPU device.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/counter.hpp"
#include "device/failure.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/device/timeline.hpp"

namespace zeroth::device {

/// The position of a stream, counted in marks. The device owns it, because events outlive the stream they were recorded
/// on.
struct Progress {
  explicit Progress(Failure& device_failure) : failure{device_failure} {}
  Counter passed;
  Failure& failure;
};

/// A point of a stream. Events of one stream share its counter. So recording an event again, also on another stream,
/// does not affect a wait for the point that it marked before.
struct Mark {
  Progress* progress = nullptr;  ///< Null if the event was never recorded.
  std::uint32_t number = 0;
  [[nodiscard]] bool passed() const noexcept {
    return progress == nullptr || Counter::reached(progress->passed.value(), number);
  }
  void wait() const noexcept;
};

class CpuEvent final : public Event {
 public:
  [[nodiscard]] bool done() const override { return mark.passed(); }
  void synchronize() const override;
  Mark mark;
};

/// Writes spans of one stream to a timeline. One thread at a time.
class SpanWriter {
 public:
  explicit SpanWriter(std::string stream) : stream_{std::move(stream)} {}
  void begin(std::string_view what, std::string_view unit) noexcept;
  void end(SpanLog& log);
  void add(SpanLog& log, std::string_view what, std::string_view unit, Clock::time_point begin,
           Clock::time_point end) const;

 private:
  std::string stream_;
  std::string_view what_, unit_;
  Clock::time_point begin_{};
};

/// Holds the log for the spans of a device's streams. Any thread may call, as a save posts its copies on its own
/// thread.
class Observer {
 public:
  void set(std::shared_ptr<SpanLog> log) {
    std::lock_guard const lock{mutex_};
    log_ = std::move(log);
    traced_ = log_ != nullptr;
  }
  /// Null if tracing is off.
  [[nodiscard]] std::shared_ptr<SpanLog> log() const {
    if (!traced_.load(std::memory_order_relaxed)) {
      return nullptr;
    }
    std::lock_guard const lock{mutex_};
    return log_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> traced_{false};  // avoids the lock while tracing is off
  std::shared_ptr<SpanLog> log_;
};

/// Total time that a stream has spent in waits. Only one thread adds.
class WaitClock {
 public:
  /// Waits. Adds the wait to `log` as a span, if `log` is not null and the wait took any time.
  void wait(Mark const& mark, SpanWriter const& writer, SpanLog* log);
  [[nodiscard]] double milliseconds() const noexcept;

 private:
  std::atomic<std::int64_t> nanoseconds_{0};
};

/// Runs each task on the caller's thread, when it is posted.
class InlineStream final : public CpuStream {
 public:
  InlineStream(std::string const& name, Progress& progress, Observer const& observer)
      : progress_{progress}, observer_{observer}, spans_{name} {}
  void post(Task const& task) override;
  void wait(Event const& event) override;
  void record(Event& event) override;
  void synchronize() override { progress_.failure.rethrow(); }
  [[nodiscard]] double waited_ms() const override { return waited_.milliseconds(); }
  [[nodiscard]] double host_ms() const override { return std::chrono::duration<double, std::milli>(worked_).count(); }
  void begin_span(std::string_view what, std::string_view unit) override;
  void end_span() override;

 private:
  Progress& progress_;
  Observer const& observer_;
  SpanWriter spans_;
  std::shared_ptr<SpanLog> open_;  // the log of the open span
  WaitClock waited_;
  Clock::duration worked_{};
};

/// A worker thread and its queue: a ring of tasks stored in place, one producer, one consumer.
class WorkerStream final : public CpuStream {
 public:
  /// The worker logs as the rank of the thread that makes the stream.
  WorkerStream(std::string const& name, Progress& progress, Observer const& observer);
  ~WorkerStream() override;  ///< Runs all queued tasks, then ends the thread.
  void post(Task const& task) override { push({task}); }
  void wait(Event const& event) override;
  void record(Event& event) override;
  void synchronize() override;
  [[nodiscard]] double waited_ms() const override { return waited_.milliseconds(); }
  [[nodiscard]] double host_ms() const override { return 0; }
  void begin_span(std::string_view what, std::string_view unit) override;
  void end_span() override;

 private:
  static constexpr std::uint32_t capacity = 256;
  struct Entry {
    Task task;
    bool even_if_failed = false;
    std::shared_ptr<SpanLog> spans = nullptr;  // the log that the task adds to
  };

  void push(Entry entry) noexcept;
  void work() noexcept;
  void run(Entry& entry) noexcept;

  Progress& progress_;
  Observer const& observer_;
  SpanWriter spans_;               // used by the worker
  std::shared_ptr<SpanLog> open_;  // the log of the open span; used by the caller
  WaitClock waited_;
  std::array<Entry, capacity> ring_;
  Counter posted_, completed_;
  std::uint32_t marks_ = 0;  // used by the producer
  bool running_ = true;      // used by the worker
  std::thread thread_;
};

}  // namespace zeroth::device
