// SPDX-License-Identifier: Apache-2.0
/// The CPU as a device: a stream is a worker thread with a queue, the compute stream is the caller's own thread.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// What a Task has room for.
inline constexpr std::size_t task_capacity_bytes = 232;
/// What is copied as bytes, and is small.
template <class F>
concept TaskFunction = std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F> &&
                       sizeof(F) <= task_capacity_bytes;

/// A call that is stored in place, so that enqueueing never allocates.
class Task {
 public:
  /// A copy of `function`; what it points to outlives the task.
  template <TaskFunction F>
  Task(F const& function)  // NOLINT(google-explicit-constructor): a lambda is a task
      : call_{[](void* self) { (*std::launder(static_cast<F*>(self)))(); }} {
    ::new (static_cast<void*>(storage_)) F(function);
  }
  Task() = default;
  /// Calls it. May throw what it throws.
  void operator()() { call_(storage_); }

 private:
  alignas(std::max_align_t) std::byte storage_[task_capacity_bytes];
  void (*call_)(void*) = nullptr;
};

/// A stream of the CPU. A task that throws fails its whole device, because streams work on each other's results: from
/// then on tasks are passed over, events still pass, and every synchronize() and wait() throws what that first task
/// threw. A device whose stream waits for a point of a failed device fails as well. post() and record() never throw it,
/// so they may end a scope.
class ZEROTH_EXPORT CpuStream : public Stream {
 public:
  /// Runs `task` after all that was enqueued before. Waits while the queue is full.
  virtual void post(Task const& task) = 0;
};
/// The CPU stream behind `stream`. Throws ContractError if it belongs to another device.
[[nodiscard]] ZEROTH_EXPORT CpuStream& as_cpu(Stream& stream);

/// Memory of allocate(): this process's alone, or such as comm::Communicator::register_memory() takes, which lies in a
/// file without a name that other processes of the same user can map, costs a file descriptor each, and is resident
/// from the start, in large pages where the system has them.
enum class CpuBuffers : bool { plain, registrable };

/// Named "cpu". Its streams start their threads when they are made.
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Device> make_cpu_device(CpuBuffers buffers = CpuBuffers::plain);

}  // namespace zeroth::device
