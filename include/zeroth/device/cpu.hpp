// SPDX-License-Identifier: Apache-2.0
/// The CPU as a device. A stream is a worker thread with a queue; the compute stream is the caller's own thread.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// Capacity of a Task.
inline constexpr std::size_t task_capacity_bytes = 328;
/// A small, trivially copyable function object.
template <class F>
concept TaskFunction = std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F> &&
                       sizeof(F) <= task_capacity_bytes;

/// A function object stored in place, so that enqueueing never allocates.
class Task {
 public:
  /// Copies `function`. What it points to must outlive the task.
  template <TaskFunction F>
  Task(F const& function)  // NOLINT(google-explicit-constructor): a lambda is a task
      : call_{[](void* self) { (*std::launder(static_cast<F*>(self)))(); }} {
    ::new (static_cast<void*>(storage_)) F(function);
  }
  Task() = default;
  /// Calls the function, and throws what it throws.
  void operator()() { call_(storage_); }

 private:
  alignas(std::max_align_t) std::byte storage_[task_capacity_bytes];
  void (*call_)(void*) = nullptr;
};

/// A stream of the CPU.
///
/// Errors: a task that throws fails its whole device, because streams use each other's results. Later tasks are
/// skipped, events still complete, and every synchronize() and wait() rethrows the first exception. A device whose
/// stream waits for an event of a failed device fails as well. post() and record() never throw it, so they may be used
/// at the end of a scope.
class ZEROTH_EXPORT CpuStream : public Stream {
 public:
  /// Runs `task` after everything enqueued before it. Blocks while the queue is full.
  virtual void post(Task const& task) = 0;
};
/// The CPU stream behind `stream`. Throws ContractError if it belongs to another device.
[[nodiscard]] ZEROTH_EXPORT CpuStream& as_cpu(Stream& stream);

/// The kind of memory that allocate() returns. Plain memory is private to this process. Registrable memory can be
/// passed to comm::Communicator::register_memory(): it is in an unnamed file that other processes of the same user can
/// map, uses a file descriptor per buffer, and is resident from the start, in large pages if the system has them.
enum class CpuBuffers : bool { plain, registrable };

/// Makes a device named "cpu". Its streams start their threads when they are made.
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Device> make_cpu_device(CpuBuffers buffers = CpuBuffers::plain);

}  // namespace zeroth::device
