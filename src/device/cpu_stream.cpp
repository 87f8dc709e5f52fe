// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_stream.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <exception>
#include <typeinfo>
#include <utility>

#include "core/start_thread.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

CpuEvent const& as_cpu(Event const& event) {
  // No dynamic_cast: g++ 12 walks the class hierarchy at run time even for a final class.
  ZEROTH_EXPECTS(typeid(event) == typeid(CpuEvent), "a CPU stream was given an event of another device");
  return static_cast<CpuEvent const&>(event);
}

CpuEvent& as_cpu(Event& event) { return const_cast<CpuEvent&>(as_cpu(std::as_const(event))); }

}  // namespace

CpuStream& as_cpu(Stream& stream) {
  if (typeid(stream) == typeid(InlineStream)) {  // the most frequent type, found without a dynamic_cast
    return static_cast<InlineStream&>(stream);
  }
  auto* const cpu = dynamic_cast<CpuStream*>(&stream);
  ZEROTH_EXPECTS(cpu != nullptr, "a stream of another device was given where one of the CPU is needed");
  return *cpu;
}

void Mark::wait() const noexcept {
  if (progress != nullptr) {
    progress->passed.wait_for(number);
  }
}

void CpuEvent::synchronize() const {
  mark.wait();
  if (mark.progress != nullptr) {
    mark.progress->failure.rethrow();
  }
}

void SpanWriter::begin(std::string_view what, std::string_view unit) noexcept {
  what_ = what;
  unit_ = unit;
  begin_ = Clock::now();
}

void SpanWriter::end(SpanLog& log) { add(log, what_, unit_, begin_, Clock::now()); }

void SpanWriter::add(SpanLog& log, std::string_view what, std::string_view unit, Clock::time_point begin,
                     Clock::time_point end) const {
  auto const microseconds = [](Clock::time_point at) {
    return std::chrono::duration<double, std::micro>(at.time_since_epoch()).count();
  };
  log.add({stream_, std::string{what}, std::string{unit}, microseconds(begin), microseconds(end)});
}

void WaitClock::wait(Mark const& mark, SpanWriter const& writer, SpanLog* log) {
  if (mark.passed()) {
    return;
  }
  auto const begin = Clock::now();
  mark.wait();
  auto const end = Clock::now();
  nanoseconds_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count(),
                         std::memory_order_relaxed);
  if (log != nullptr) {
    writer.add(*log, "wait", "", begin, end);
  }
}

double WaitClock::milliseconds() const noexcept {
  return static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-6;
}

void InlineStream::post(Task const& task) {
  if (progress_.failure.failed()) {
    return;
  }
  auto const begin = Clock::now();
  try {
    Task{task}();
  } catch (...) {
    progress_.failure.set(std::current_exception());
  }
  worked_ += Clock::now() - begin;
}

void InlineStream::wait(Event const& event) {
  auto const mark = as_cpu(event).mark;
  waited_.wait(mark, spans_, observer_.log().get());
  if (mark.progress != nullptr) {
    progress_.failure.adopt(mark.progress->failure);
  }
  progress_.failure.rethrow();
}

void InlineStream::record(Event& event) { as_cpu(event).mark = {&progress_, progress_.passed.value()}; }

void InlineStream::begin_span(std::string_view what, std::string_view unit) {
  open_ = observer_.log();
  if (open_ != nullptr) {
    spans_.begin(what, unit);
  }
}

void InlineStream::end_span() {
  if (auto const log = std::exchange(open_, nullptr)) {
    spans_.end(*log);
  }
}

WorkerStream::WorkerStream(std::string const& name, Progress& progress, Observer const& observer)
    : progress_{progress}, observer_{observer}, spans_{name} {
  thread_ = start_thread(fmt::format("stream '{}'", name), [this, rank = this_rank()] {
    this_rank() = rank;
    work();
  });
  auto const rank = this_rank().rank;
  auto const label = rank < 0 ? name : fmt::format("{}/{}", name.substr(0, 10), rank);
  pthread_setname_np(thread_.native_handle(), label.substr(0, 15).c_str());
}

WorkerStream::~WorkerStream() {
  push({[this] { running_ = false; }, true});
  thread_.join();
}

void WorkerStream::push(Entry entry) noexcept {
  std::uint32_t const posted = posted_.value();
  completed_.wait_for(posted - capacity + 1);
  ring_[posted % capacity] = std::move(entry);
  posted_.add();
}

void WorkerStream::work() noexcept {
  for (std::uint32_t next = 0; running_; ++next) {
    posted_.wait_for(next + 1);
    auto& entry = ring_[next % capacity];
    run(entry);
    entry.spans.reset();
    completed_.add();
  }
}

void WorkerStream::run(Entry& entry) noexcept {
  if (progress_.failure.failed() && !entry.even_if_failed) {
    return;
  }
  try {
    entry.task();
  } catch (...) {
    progress_.failure.set(std::current_exception());
  }
}

void WorkerStream::wait(Event const& event) {
  progress_.failure.rethrow();
  auto const mark = as_cpu(event).mark;
  if (mark.progress == nullptr || mark.progress == &progress_) {
    return;  // never recorded, or recorded on this stream
  }
  auto log = observer_.log();
  push({[this, mark, to = log.get()] {
          waited_.wait(mark, spans_, to);
          progress_.failure.adopt(mark.progress->failure);
        },
        false, std::move(log)});
}

void WorkerStream::record(Event& event) {
  auto& mark = as_cpu(event).mark;
  push({[progress = &progress_] { progress->passed.add(); }, true});
  mark = {&progress_, ++marks_};
}

void WorkerStream::begin_span(std::string_view what, std::string_view unit) {
  open_ = observer_.log();
  if (open_ != nullptr) {
    post([this, what, unit] { spans_.begin(what, unit); });
  }
}

void WorkerStream::end_span() {
  if (auto log = std::exchange(open_, nullptr)) {
    push({[this, to = log.get()] { spans_.end(*to); }, false, std::move(log)});
  }
}

void WorkerStream::synchronize() {
  completed_.wait_for(posted_.value());
  progress_.failure.rethrow();
}

}  // namespace zeroth::device
