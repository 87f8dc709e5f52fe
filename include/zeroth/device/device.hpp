// SPDX-License-Identifier: Apache-2.0
/// A device as the runtime uses it: memory, streams, events. Kernels are in device/kernels.hpp.
///
/// Events work as in CUDA on every device: record() marks a point of a stream, and a wait that is enqueued later waits
/// for the point recorded last before it. An event that was never recorded counts as done.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "zeroth/core/clock.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/graph.hpp"
#include "zeroth/device/memory.hpp"
#include "zeroth/device/storage.hpp"

namespace zeroth {
class Timeline;
}

namespace zeroth::device {

/// A point of a stream. Can be recorded repeatedly. One thread records it and enqueues waits for it.
class ZEROTH_EXPORT Event {
 public:
  Event() = default;
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;
  virtual ~Event() = default;
  [[nodiscard]] virtual bool done() const = 0;  ///< Whether the last recorded point has passed. Does not block.
  /// Blocks the host until the last recorded point has passed. Throws the stream's error before it, if there was one.
  virtual void synchronize() const = 0;
};

/// A stream of the device's own library; adapters/cuda.hpp makes one from a cudaStream_t.
struct StreamRef {
  void* native = nullptr;  ///< A cudaStream_t; null is the default stream, or no stream on the CPU.
};

/// An ordered queue of work. Calls return once their work is enqueued. One thread enqueues.
class ZEROTH_EXPORT Stream {
 public:
  Stream() = default;
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  virtual ~Stream() = default;
  /// Makes work enqueued after this call wait for the point that `event` marks now.
  virtual void wait(Event const& event) = 0;
  virtual void record(Event& event) = 0;  ///< Makes `event` mark the end of all work enqueued so far.
  /// Blocks the host until all work enqueued so far has completed. Throws the stream's error, if there was one.
  virtual void synchronize() = 0;
  /// Total milliseconds that this stream has spent in wait(). On the compute stream this is communication that was not
  /// hidden. On a GPU it includes only waits that the stream has reached.
  [[nodiscard]] virtual double waited_ms() const = 0;
  /// Total milliseconds that the host has spent on this stream's work; 0 if the stream runs concurrently with the host.
  [[nodiscard]] virtual double host_ms() const = 0;
  /// Begins a span of the device's timeline, if it has one; it covers the work enqueued until end_span(). The views
  /// must outlive the work. Such spans do not nest, but a wait() within one becomes a separate span inside it.
  virtual void begin_span(std::string_view what, std::string_view unit) = 0;
  virtual void end_span() = 0;  ///< Ends the span.
  /// The native stream; null if the host itself does the work.
  [[nodiscard]] virtual StreamRef native() const noexcept { return {}; }
};

/// Makes a span of the work enqueued in a scope.
class SpanScope {
 public:
  /// Calls Stream::begin_span(). `stream` must outlive the scope.
  SpanScope(Stream& stream, std::string_view what, std::string_view unit) : stream_{stream} {
    stream_.begin_span(what, unit);
  }
  SpanScope(SpanScope const&) = delete;
  SpanScope& operator=(SpanScope const&) = delete;
  ~SpanScope() { stream_.end_span(); }

 private:
  Stream& stream_;
};

/// A zero-filled block of memory in one category, aligned to 4096 bytes. The destructor frees it and updates the
/// ledger.
class ZEROTH_EXPORT Memory {
 public:
  Memory() = default;
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  virtual ~Memory() = default;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }      ///< Null if it has zero bytes.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }  ///< The requested size.
  /// Whether communicators can register it. See comm::Communicator::register_memory().
  [[nodiscard]] virtual bool registrable() const noexcept { return false; }

 protected:
  std::byte* data_ = nullptr;  ///< Set by the device that made it, like bytes_.
  std::int64_t bytes_ = 0;     ///< See bytes().
};

class Kernels;
/// Whether a stream runs concurrently with the compute stream, or inline.
enum class Overlap : bool { off, on };

/// One rank's device. Use it on the thread that made it. It must outlive what it made.
class ZEROTH_EXPORT Device {
 public:
  Device() = default;
  Device(Device const&) = delete;
  Device& operator=(Device const&) = delete;
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "cpu", "cuda:3".
  /// Allocates memory. Throws SystemError, naming category and bytes, on failure. Zero bytes are allowed.
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate(Category category, std::int64_t bytes) = 0;
  /// Whether the host can access memory from allocate() directly.
  [[nodiscard]] virtual bool has_host_memory() const noexcept { return false; }
  /// Allocates memory that both the host and this device can access, for the few numbers and pieces of files that they
  /// exchange. Its address may be passed to Kernels calls and collectives. Zero-filled, aligned to 4096 bytes. It is
  /// host memory, so the ledger does not count it. Throws as allocate() does.
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate_host(std::int64_t bytes) = 0;
  /// Allocates memory of the device for what the program keeps, such as activations: zero-filled, aligned to 4096
  /// bytes, and not in the ledger. Throws as allocate() does. By default this is allocate_host().
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate_for_program(std::int64_t bytes) {
    return allocate_host(bytes);
  }
  /// Makes storage on a disk. Throws SystemError if there is no space, and ContractError if the device cannot access
  /// disks.
  [[nodiscard]] virtual std::unique_ptr<Storage> make_storage(StorageOptions const& options);
  /// Makes storage of `bytes` zero-filled bytes in pinned host memory, for asynchronous copies by this device's
  /// streams. `purpose` and `contents` are for messages: "exp_avg" and "states". Throws SystemError, naming both, on
  /// failure, and ContractError if has_host_memory().
  [[nodiscard]] virtual std::unique_ptr<Storage> make_host_storage(std::int64_t bytes, std::string_view purpose,
                                                                   std::string_view contents);
  /// Makes an event for this device's streams. Other devices may wait for it.
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// The index of the first of `events` that is done; nullopt if none is. A device with its own clock waits on the host
  /// until it knows when each of them is done, and returns the earliest.
  [[nodiscard]] virtual std::optional<std::size_t> first_done(std::span<Event const* const> events) const;
  /// Makes a stream. With overlap off, work runs on the calling thread when it is enqueued.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(char const* name, Overlap overlap) = 0;
  /// The caller's stream. On the CPU it is the calling thread, so work is done when the call returns. On a GPU it is a
  /// stream of the device, unless compute_on() set another.
  [[nodiscard]] virtual Stream& compute() = 0;
  /// Makes compute() return `stream`, which must outlive the device's work on it. Call it before compute(),
  /// make_stream() or allocate(), which use that stream. Throws ContractError if compute() is the calling thread, or
  /// was used before.
  virtual void compute_on(StreamRef stream);
  /// Makes this the calling thread's current CUDA device, and leaves it current. A thread other than the one that made
  /// the device must call it before every call that uses the device. An error fails the device.
  virtual void make_current() noexcept {}
  /// Why this device cannot capture work in graphs, for messages; empty if it can.
  [[nodiscard]] virtual std::string why_no_graphs();
  /// Captures what is enqueued from now on on compute() and on `streams` of this device, in place of running it. It
  /// follows all that was enqueued on them before. Until end_capture() nothing may wait on the host. Throws
  /// ContractError if why_no_graphs().
  virtual void begin_capture(std::span<Stream* const> streams);
  /// Ends the capture. The work has not run: launch the graph.
  [[nodiscard]] virtual std::unique_ptr<Graph> end_capture();
  [[nodiscard]] virtual Kernels& kernels() = 0;            ///< Kernels for its streams, owned by the device.
  [[nodiscard]] virtual Ledger const& ledger() const = 0;  ///< Counts everything that allocate() returned.
  /// Adds spans and waits of streams to `timeline` from now on; null stops that. `timeline` must outlive the work
  /// enqueued until then.
  virtual void set_timeline(Timeline* timeline) noexcept = 0;
  /// Adds completed spans to the timeline. On a GPU this waits for all work with spans so far; other devices add spans
  /// when work completes.
  virtual void flush_timeline() {}
  /// The host's time on this device.
  [[nodiscard]] virtual Clock::time_point now() const noexcept { return Clock::now(); }
  /// False if the device only simulates how long work takes; then no values are written or read.
  [[nodiscard]] virtual bool holds_values() const noexcept { return true; }
};

}  // namespace zeroth::device
