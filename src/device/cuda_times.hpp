// SPDX-License-Identifier: Apache-2.0
/// How long work and waits on a GPU took, known once they have passed.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/cuda_call.hpp"
#include "device/cuda_event.hpp"
#include "zeroth/core/clock.hpp"
#include "zeroth/device/timeline.hpp"

namespace zeroth::device {

/// Two points of a stream.
struct CudaInterval {
  explicit CudaInterval(CudaContext& context)
      : begin{context, CudaEventHandle::Kind::time}, end{context, CudaEventHandle::Kind::time} {}
  CudaEventHandle begin, end;
};

/// The total of intervals on one stream, from events that are made beforehand. Nothing waits: an interval counts once
/// somebody asks for the total after it has passed. Each is measured: if the host comes further ahead of the GPU than
/// ever before, there are twice as many events from then on.
///
/// Two events take time themselves, some microseconds, and a step has hundreds of intervals in most of which nothing
/// was waited for. So the first intervals of all are empty ones, and what they take is the cost of every other: an
/// interval counts without it, and not at all if it took less than twice as long.
class CudaTimes {
 public:
  explicit CudaTimes(CudaContext& context);
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);
  [[nodiscard]] double milliseconds();

 private:
  static constexpr std::size_t first_capacity = 1024;  // a step of hundreds of units, one behind the host
  /// The next interval that is free. All before it in the ring, from first_ on, are pending.
  [[nodiscard]] CudaInterval& next();
  void grow();
  void add_passed();
  void add(float elapsed_ms);

  CudaContext& context_;
  std::vector<std::unique_ptr<CudaInterval>> ring_;
  std::size_t first_ = 0, pending_ = 0;  // recorded, and not added yet
  bool begun_ = false;
  std::array<float, 9> empty_ms_{};
  std::size_t empty_passed_ = 0;
  float cost_ms_ = 0;  // known once all of these have passed, which is before all others
  double milliseconds_ = 0;
};

/// Spans of all streams of a device on their way to a Timeline. Costs allocations while it lasts. Streams of several
/// threads open and close spans, at any time; all else is for the device's thread.
class CudaSpans {
 public:
  explicit CudaSpans(CudaContext& context) : context_{context} {}
  /// Spans that are opened from now on go to `timeline`. The first time, and after end(), waits for the GPU to come to
  /// this point of `stream`, whose time is then known on the host's clock too.
  void begin(Timeline& timeline, cudaStream_t stream);
  /// Adds all spans that are closed to their timelines. Waits for them.
  void flush();
  void end();

  struct Span {
    Span(CudaContext& context, std::shared_ptr<SpanLog> to, std::string_view stream_name, std::string_view what_is_done,
         std::string_view of_unit)
        : log{std::move(to)}, stream{stream_name}, what{what_is_done}, unit{of_unit}, interval{context} {}
    std::shared_ptr<SpanLog> log;
    std::string stream, what, unit;
    CudaInterval interval;
  };
  using Open = std::unique_ptr<Span>;
  /// Null where there is no timeline.
  [[nodiscard]] Open open(cudaStream_t stream, std::string_view name, std::string_view what, std::string_view unit);
  /// Of what open() has given. Gone where the timeline has ended meanwhile.
  void close(Open span, cudaStream_t stream);

 private:
  CudaContext& context_;
  std::unique_ptr<CudaEventHandle> origin_;
  double origin_us_ = 0;
  std::mutex mutex_;  // for the rest
  std::shared_ptr<SpanLog> log_;
  std::vector<Open> closed_;
};

}  // namespace zeroth::device
