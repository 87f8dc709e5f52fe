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

/// How far a stream has come, counted in marks. Kept by the device, because events outlive the stream they are on.
struct Progress {
  explicit Progress(Failure& device_failure) : failure{device_failure} {}
  Counter passed;
  Failure& failure;
};

/// A point of a stream. Events of one stream share its counter, so recording an event again, or on another stream,
/// leaves alone those who wait for the point that it marked before.
struct Mark {
  Progress* progress = nullptr;  ///< Null in an event that was never recorded.
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

/// Spans of one stream on their way to a timeline. One thread at a time.
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

/// Where the spans of a device's streams go. Any thread may call: a save posts its copies on a thread of its own.
class Observer {
 public:
  void set(std::shared_ptr<SpanLog> log) {
    std::lock_guard const lock{mutex_};
    log_ = std::move(log);
    traced_ = log_ != nullptr;
  }
  /// Null where nothing is traced.
  [[nodiscard]] std::shared_ptr<SpanLog> log() const {
    if (!traced_.load(std::memory_order_relaxed)) {
      return nullptr;
    }
    std::lock_guard const lock{mutex_};
    return log_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> traced_{false};  // spares the lock where nothing is traced
  std::shared_ptr<SpanLog> log_;
};

/// Time that a stream has spent in waits. One thread adds.
class WaitClock {
 public:
  /// Adds the wait to `log` as a span, if there is one and it took any time.
  void wait(Mark const& mark, SpanWriter const& writer, SpanLog* log);
  [[nodiscard]] double milliseconds() const noexcept;

 private:
  std::atomic<std::int64_t> nanoseconds_{0};
};

/// Runs its work when it is enqueued, on the caller's thread.
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
  std::shared_ptr<SpanLog> open_;  // where the span goes that has begun
  WaitClock waited_;
  Clock::duration worked_{};
};

/// A worker thread and its queue: a ring of tasks stored in place, one producer, one consumer.
class WorkerStream final : public CpuStream {
 public:
  /// The worker speaks as the rank of the thread that makes the stream.
  WorkerStream(std::string const& name, Progress& progress, Observer const& observer);
  ~WorkerStream() override;  ///< Runs what is enqueued, then ends the thread.
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
    std::shared_ptr<SpanLog> spans = nullptr;  // that the task adds to
  };

  void push(Entry entry) noexcept;
  void work() noexcept;
  void run(Entry& entry) noexcept;

  Progress& progress_;
  Observer const& observer_;
  SpanWriter spans_;               // the worker's
  std::shared_ptr<SpanLog> open_;  // where the span goes that has begun; the caller's
  WaitClock waited_;
  std::array<Entry, capacity> ring_;
  Counter posted_, completed_;
  std::uint32_t marks_ = 0;  // the producer's
  bool running_ = true;      // the worker's
  std::thread thread_;
};

}  // namespace zeroth::device
