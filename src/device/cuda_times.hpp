// SPDX-License-Identifier: Apache-2.0
/// Measures the time of work and waits on a GPU. It is known once they have passed.
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

/// Two events on a stream that bound an interval.
struct CudaInterval {
  explicit CudaInterval(CudaContext& context)
      : begin{context, CudaEventHandle::Kind::time}, end{context, CudaEventHandle::Kind::time} {}
  CudaEventHandle begin, end;
};

/// The total of intervals on one stream, from preallocated events. Nothing waits: an interval counts once the total is
/// read after it has passed. All intervals are measured: if the host runs further ahead of the GPU than ever before,
/// the number of events doubles.
///
/// Two events take some microseconds themselves, and most of the hundreds of intervals of a step waited for nothing. So
/// the first intervals are empty and measure that cost. It is subtracted from every later interval, which does not
/// count at all if it took less than twice the cost.
class CudaTimes {
 public:
  explicit CudaTimes(CudaContext& context);
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);
  [[nodiscard]] double milliseconds();

 private:
  static constexpr std::size_t first_capacity = 1024;  // for a step of hundreds of units, one step ahead
  /// The next free interval. All before it in the ring, from first_ on, are pending.
  [[nodiscard]] CudaInterval& next();
  void grow();
  void add_passed();
  void add(float elapsed_ms);

  CudaContext& context_;
  std::vector<std::unique_ptr<CudaInterval>> ring_;
  std::size_t first_ = 0, pending_ = 0;  // recorded and not yet added
  bool begun_ = false;
  std::array<float, 9> empty_ms_{};
  std::size_t empty_passed_ = 0;
  float cost_ms_ = 0;  // known once all empty intervals have passed, which is before all others
  double milliseconds_ = 0;
};

/// Passes spans of all streams of a device to a Timeline. Allocates while a timeline is set. Streams on several threads
/// may open and close spans at any time; all other calls are for the device's thread.
class CudaSpans {
 public:
  explicit CudaSpans(CudaContext& context) : context_{context} {}
  /// Spans opened from now on go to `timeline`. The first call, and the first after end(), waits for the GPU to reach
  /// this point of `stream`, whose time on the host's clock is then known.
  void begin(Timeline& timeline, cudaStream_t stream);
  /// Adds all closed spans to their timelines. Waits for them.
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
  /// Null if there is no timeline.
  [[nodiscard]] Open open(cudaStream_t stream, std::string_view name, std::string_view what, std::string_view unit);
  /// Closes a span of open(). Drops it if the timeline has ended meanwhile.
  void close(Open span, cudaStream_t stream);

 private:
  CudaContext& context_;
  std::unique_ptr<CudaEventHandle> origin_;
  double origin_us_ = 0;
  std::mutex mutex_;  // guards the members below
  std::shared_ptr<SpanLog> log_;
  std::vector<Open> closed_;
};

}  // namespace zeroth::device
