// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_times.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace zeroth::device {

CudaTimes::CudaTimes(CudaContext& context) : context_{context} { grow(); }

CudaInterval& CudaTimes::next() { return *ring_[(first_ + pending_) % ring_.size()]; }

/// Inserts the new intervals after the newest pending one, which is just before the oldest in the ring.
void CudaTimes::grow() {
  std::vector<std::unique_ptr<CudaInterval>> fresh(std::max(ring_.size(), first_capacity));
  for (auto& each : fresh) {
    each = std::make_unique<CudaInterval>(context_);
  }
  auto const count = fresh.size();
  ring_.insert(ring_.begin() + static_cast<std::ptrdiff_t>(first_), std::make_move_iterator(fresh.begin()),
               std::make_move_iterator(fresh.end()));
  first_ = (first_ + count) % ring_.size();
}

void CudaTimes::begin(cudaStream_t stream) {
  if (!std::exchange(begun_, true)) {
    for (std::size_t i = 0; i < empty_ms_.size(); ++i) {
      begin(stream);
      end(stream);
    }
  }
  if (pending_ == ring_.size()) {
    add_passed();
  }
  if (pending_ == ring_.size()) {
    grow();
  }
  context_.expect(cudaEventRecord(next().begin.get(), stream), "cudaEventRecord");
}

void CudaTimes::end(cudaStream_t stream) {
  context_.expect(cudaEventRecord(next().end.get(), stream), "cudaEventRecord");
  ++pending_;
}

double CudaTimes::milliseconds() {
  if (context_.capture() == 0) {  // otherwise CUDA answers no queries
    add_passed();
  }
  return milliseconds_;
}

void CudaTimes::add_passed() {
  for (; pending_ > 0; --pending_, first_ = (first_ + 1) % ring_.size()) {
    auto const& interval = *ring_[first_];
    auto const answer = forget_not_ready(cudaEventQuery(interval.end.get()));
    if (answer == cudaErrorNotReady) {
      return;
    }
    context_.expect(answer, "cudaEventQuery");
    float elapsed = 0;
    context_.expect(cudaEventElapsedTime(&elapsed, interval.begin.get(), interval.end.get()), "cudaEventElapsedTime");
    add(elapsed);
  }
}

void CudaTimes::add(float elapsed_ms) {
  if (empty_passed_ == empty_ms_.size()) {
    milliseconds_ += elapsed_ms < 2 * cost_ms_ ? 0 : static_cast<double>(elapsed_ms - cost_ms_);
    return;
  }
  empty_ms_[empty_passed_++] = elapsed_ms;
  if (empty_passed_ == empty_ms_.size()) {  // the median, as another program's work may have delayed one
    auto const middle = empty_ms_.begin() + empty_ms_.size() / 2;
    std::nth_element(empty_ms_.begin(), middle, empty_ms_.end());
    cost_ms_ = *middle;
  }
}

void CudaSpans::begin(Timeline& timeline, cudaStream_t stream) {
  {
    std::lock_guard const lock{mutex_};
    if (log_ != nullptr) {
      log_ = timeline.log();
      return;
    }
  }
  origin_ = std::make_unique<CudaEventHandle>(context_, CudaEventHandle::Kind::time);
  context_.expect(cudaEventRecord(origin_->get(), stream), "cudaEventRecord");
  context_.await([this] { return cudaEventQuery(origin_->get()); }, "cudaEventQuery");
  origin_us_ = std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
  std::lock_guard const lock{mutex_};
  log_ = timeline.log();
}

CudaSpans::Open CudaSpans::open(cudaStream_t stream, std::string_view name, std::string_view what,
                                std::string_view unit) {
  std::shared_ptr<SpanLog> log;
  {
    std::lock_guard const lock{mutex_};
    log = log_;
  }
  if (log == nullptr) {
    return nullptr;
  }
  auto span = std::make_unique<Span>(context_, std::move(log), name, what, unit);
  context_.expect(cudaEventRecord(span->interval.begin.get(), stream), "cudaEventRecord");
  return span;
}

void CudaSpans::close(Open span, cudaStream_t stream) {
  context_.expect(cudaEventRecord(span->interval.end.get(), stream), "cudaEventRecord");
  std::lock_guard const lock{mutex_};
  if (log_ != nullptr) {
    closed_.push_back(std::move(span));
  }
}

void CudaSpans::flush() {
  constexpr double shortest_wait_us = 2;  // assumed: shorter intervals are two events with nothing to wait for
  std::vector<Open> closed;
  {
    std::lock_guard const lock{mutex_};
    closed.swap(closed_);
  }
  for (auto const& span : closed) {
    auto const since_origin = [&](CudaEventHandle const& event) {
      context_.await([&] { return cudaEventQuery(event.get()); }, "cudaEventQuery");
      float elapsed = 0;
      context_.expect(cudaEventElapsedTime(&elapsed, origin_->get(), event.get()), "cudaEventElapsedTime");
      return origin_us_ + 1e3 * static_cast<double>(elapsed);
    };
    double const begin_us = since_origin(span->interval.begin);
    double const end_us = since_origin(span->interval.end);
    if (span->what != "wait" || end_us - begin_us >= shortest_wait_us) {
      span->log->add({span->stream, span->what, span->unit, begin_us, end_us});
    }
  }
}

void CudaSpans::end() {
  flush();
  std::lock_guard const lock{mutex_};
  log_ = nullptr;
  closed_.clear();  // spans that other threads have closed since
}

}  // namespace zeroth::device
