// SPDX-License-Identifier: Apache-2.0
/// What the runtime needs of a device: memory, streams, events. Kernels are in device/kernels.hpp.
///
/// An event is what it is in CUDA on every device: record() marks a point of a stream, and a wait that is enqueued
/// later waits for the point that was recorded last before it. An event that was never recorded counts as done.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "zeroth/core/clock.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/memory.hpp"
#include "zeroth/device/storage.hpp"

namespace zeroth {
class Timeline;
}

namespace zeroth::device {

/// A point of a stream. Recorded again and again; one thread records and enqueues waits.
class ZEROTH_EXPORT Event {
 public:
  Event() = default;
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;
  virtual ~Event() = default;
  [[nodiscard]] virtual bool done() const = 0;  ///< Whether the point recorded last has passed. Does not wait.
  /// Blocks the host until the point recorded last has passed. Throws what went wrong on the stream before it.
  virtual void synchronize() const = 0;
};

/// A stream as its device's own library knows it; adapters/cuda.hpp makes one of a cudaStream_t.
struct StreamRef {
  void* native = nullptr;  ///< A cudaStream_t; null is the default stream, or no stream on the CPU.
};

/// An ordered queue of work. Calls return once enqueued; one thread enqueues.
class ZEROTH_EXPORT Stream {
 public:
  Stream() = default;
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  virtual ~Stream() = default;
  /// Work enqueued after this call starts only when the point that `event` marks now has passed.
  virtual void wait(Event const& event) = 0;
  virtual void record(Event& event) = 0;  ///< `event` marks the end of all work enqueued so far.
  /// Blocks the host until all work enqueued so far has passed. Throws what went wrong.
  virtual void synchronize() = 0;
  /// Milliseconds that this stream has spent in wait(), in all. On the compute stream: communication that was not
  /// hidden. On a GPU what is known of it so far: waits that the stream has not come to yet count later.
  [[nodiscard]] virtual double waited_ms() const = 0;
  /// Milliseconds that the host has spent on this stream's work, in all: 0 where the stream runs beside the host.
  [[nodiscard]] virtual double host_ms() const = 0;
  /// Work enqueued from here to end_span() is one span of the device's timeline, if it has one. The views outlive the
  /// work. Spans that begin here do not nest; a wait() within one is a span of its own inside it.
  virtual void begin_span(std::string_view what, std::string_view unit) = 0;
  virtual void end_span() = 0;  ///< Ends what begin_span() began.
  /// Null where the host itself does the work.
  [[nodiscard]] virtual StreamRef native() const noexcept { return {}; }
};

/// Work enqueued in a scope, as a span.
class SpanScope {
 public:
  /// As Stream::begin_span(); `stream` outlives the scope.
  SpanScope(Stream& stream, std::string_view what, std::string_view unit) : stream_{stream} {
    stream_.begin_span(what, unit);
  }
  SpanScope(SpanScope const&) = delete;
  SpanScope& operator=(SpanScope const&) = delete;
  ~SpanScope() { stream_.end_span(); }

 private:
  Stream& stream_;
};

/// Memory of one category, zero-filled, aligned to 4096 bytes. Returned to the system and the ledger when it ends.
class ZEROTH_EXPORT Memory {
 public:
  Memory() = default;
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  virtual ~Memory() = default;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }      ///< Null of zero bytes.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }  ///< As asked for.
  /// Can other GPUs and the network be given it? See comm::Communicator::register_memory().
  [[nodiscard]] virtual bool registrable() const noexcept { return false; }

 protected:
  std::byte* data_ = nullptr;  ///< Set by the device that made it, as is the next.
  std::int64_t bytes_ = 0;     ///< See bytes().
};

class Kernels;
/// Whether a stream runs beside the compute stream or in line with it.
enum class Overlap : bool { off, on };

/// One rank's device. Belongs to the thread that made it; outlives what it made.
class ZEROTH_EXPORT Device {
 public:
  Device() = default;
  Device(Device const&) = delete;
  Device& operator=(Device const&) = delete;
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "cpu", "cuda:3"
  /// Throws SystemError naming category and bytes if the memory is not to be had. Zero bytes are allowed.
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate(Category category, std::int64_t bytes) = 0;
  /// Whether the host reads and writes what allocate() gives as its own.
  [[nodiscard]] virtual bool has_host_memory() const noexcept { return false; }
  /// Memory that both the host and this device read and write, for the few numbers and pieces of files that they
  /// exchange: where a Kernels call or a collective takes an address, one in here will do. Zero-filled, aligned to 4096
  /// bytes. The host's, so in no ledger. Throws as allocate().
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate_host(std::int64_t bytes) = 0;
  /// Room on a disk. Throws SystemError if there is none, and ContractError where the device has no way there.
  [[nodiscard]] virtual std::unique_ptr<Storage> make_storage(StorageOptions const& options);
  /// `bytes` zeros in pinned memory of the host, which streams of this device copy from and to beside its other work.
  /// `purpose` is for messages: "exp_avg". Throws SystemError naming both if the memory is not to be had, and
  /// ContractError where has_host_memory().
  [[nodiscard]] virtual std::unique_ptr<Storage> make_host_storage(std::int64_t bytes, std::string_view purpose);
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;  ///< For streams of this device and waits of others.
  /// With overlap off the work runs when it is enqueued, in line with the caller.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(char const* name, Overlap overlap) = 0;
  /// The caller's stream: on the CPU the calling thread itself, so its work is done when the call returns. On a GPU one
  /// that the device makes, unless compute_on() gave another.
  [[nodiscard]] virtual Stream& compute() = 0;
  /// From now on compute() is `stream`, which outlives the device's work on it. Before the first call of compute(),
  /// make_stream() or allocate(), which use that stream. Throws ContractError where compute() is the calling thread,
  /// and after compute() was used.
  virtual void compute_on(StreamRef stream);
  /// For threads beside the one that made it, before each call there that reaches this device: it becomes what the
  /// thread's own calls of CUDA are for, and stays that. What goes wrong fails the device.
  virtual void make_current() noexcept {}
  [[nodiscard]] virtual Kernels& kernels() = 0;            ///< For its streams; the device's own.
  [[nodiscard]] virtual Ledger const& ledger() const = 0;  ///< Of all that allocate() gave.
  /// From now on spans, and waits of streams, are added to `timeline`; null ends that. It outlives work enqueued so
  /// far.
  virtual void set_timeline(Timeline* timeline) noexcept = 0;
  /// Adds to the timeline what is complete. On a GPU this waits for all work with spans so far; elsewhere spans are
  /// added as work ends.
  virtual void flush_timeline() {}
  /// What a host's clock says on this device.
  [[nodiscard]] virtual Clock::time_point now() const noexcept { return Clock::now(); }
  /// False where only the time that work takes is known: values are neither written nor read.
  [[nodiscard]] virtual bool holds_values() const noexcept { return true; }
};

}  // namespace zeroth::device
