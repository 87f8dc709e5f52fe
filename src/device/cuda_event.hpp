// SPDX-License-Identifier: Apache-2.0
/// Events of the CUDA device.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda_call.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// Owns a cudaEvent_t. May outlive the device that made it, because other ranks wait for it.
class CudaEventHandle {
 public:
  enum class Kind : bool { order, time };
  CudaEventHandle(CudaContext& context, Kind kind);
  CudaEventHandle(CudaEventHandle const&) = delete;
  CudaEventHandle& operator=(CudaEventHandle const&) = delete;
  ~CudaEventHandle() { static_cast<void>(cudaEventDestroy(event_)); }
  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaContext& context)
      : context_{context}, ordinal_{context.ordinal()}, event_{context, CudaEventHandle::Kind::order} {}
  [[nodiscard]] bool done() const override;
  void synchronize() const override;

  /// Records the end of `stream`, which is one of `context`: this event's device or, since events may outlive theirs,
  /// another one of the same GPU.
  void record(CudaContext& context, cudaStream_t stream);
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// The event that `stream` of `context` must wait for to follow the recorded point; null if it follows it anyway. The
  /// context matters, because the default stream has the same handle on every GPU and every thread.
  [[nodiscard]] cudaEvent_t awaited_by(CudaContext const& context, cudaStream_t stream) const noexcept;
  [[nodiscard]] cudaEvent_t get() const noexcept { return event_.get(); }

 private:
  [[nodiscard]] cudaEvent_t asked() const;

  CudaContext& context_;
  int ordinal_;
  CudaEventHandle event_;
  // of the last record
  CudaContext const* recorded_by_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::uint64_t capture_ = 0;  // see CudaContext::capture()
};

/// Throws ContractError for an event of another device.
[[nodiscard]] CudaEvent& as_cuda(Event& event);
[[nodiscard]] CudaEvent const& as_cuda(Event const& event);

}  // namespace zeroth::device
