// SPDX-License-Identifier: Apache-2.0
/// Streams of a GPU, as other ranks of the same process see them.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>

#include "device/failure.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/reduce.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// A stream that works in the memory of all ranks of a process, and whose events order the streams of all of them.
/// Ranks exchange pointers and recorded events on the host; the streams do the work on the memory.
class PeerStream : public Stream {
 public:
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// Like wait(), for an event of another rank. Work in that rank's memory may follow. Throws SystemError if the two
  /// GPUs cannot access each other's memory.
  virtual void follow(Event const& event) = 0;
  /// device::rank_fold on this stream. At most `most_ranks` inputs, and as many outputs. Callers have checked
  /// folds(reduce, dtype).
  virtual void fold(Reduce reduce, void* const* outputs, int output_count, void const* const* inputs, int input_count,
                    Dtype dtype, std::int64_t first, std::int64_t count, double factor) = 0;
  /// Whether fold() has this operator.
  [[nodiscard]] static bool folds(Reduce reduce, Dtype dtype) noexcept {
    bool const floating = is_defined(Reduce::average, dtype);
    return reduce == Reduce::sum || ((reduce == Reduce::maximum || reduce == Reduce::premul_sum) && floating);
  }
  /// device::rank_fold_into() on this stream. At most `most_ranks` inputs.
  virtual void sum_into(float* sums, bool accumulate, void const* const* inputs, int input_count, Dtype dtype,
                        std::int64_t count) = 0;
  virtual void copy(void* destination, void const* source, std::int64_t bytes) = 0;
  /// Fails the device, like a task that throws on the CPU: it skips its work from now on, and wait() and synchronize()
  /// throw.
  virtual void fail(std::exception_ptr error) noexcept = 0;
  [[nodiscard]] virtual bool failed() const noexcept = 0;
  /// Whether enqueued work is captured in a graph: see Device::begin_capture().
  [[nodiscard]] virtual bool captures() const noexcept { return false; }
  /// The failure that fail() sets, for threads that may outlive the device. Any thread may set it.
  [[nodiscard]] virtual std::shared_ptr<Failure> failure() const = 0;
  [[nodiscard]] virtual int most_ranks() const noexcept = 0;
};

}  // namespace zeroth::device
