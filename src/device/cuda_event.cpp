// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_event.hpp"

#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::device {

CudaEventHandle::CudaEventHandle(CudaContext& context, Kind kind) {
  // Without timing, waits on the GPU and queries are cheapest.
  unsigned const flags = kind == Kind::order ? cudaEventDisableTiming : cudaEventDefault;
  int current = 0;
  context.expect(cudaGetDevice(&current), "cudaGetDevice");
  if (current == context.ordinal()) {
    context.expect(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
    return;
  }
  // An event belongs to the current GPU of the thread that makes it. On threads other than the device's, for example
  // that of a save, that is GPU 0.
  context.expect(cudaSetDevice(context.ordinal()), "cudaSetDevice");
  auto const made = cudaEventCreateWithFlags(&event_, flags);
  context.note(cudaSetDevice(current), "cudaSetDevice");
  context.expect(made, "cudaEventCreateWithFlags");
}

/// A point of a graph has passed once the last launch has, whatever graph that was: launches follow each other.
cudaEvent_t CudaEvent::asked() const {
  context_.expect_no_capture();
  return capture_ == 0 ? event_.get() : context_.launched();
}

cudaEvent_t CudaEvent::awaited_by(CudaContext const& context, cudaStream_t stream) const noexcept {
  auto const now = context.capture();
  bool const here = recorded_by_ == &context;
  if (recorded_by_ == nullptr || (here && stream == stream_ && capture_ == now)) {
    return nullptr;
  }
  if (here && now != 0) {  // a graph follows everything that was enqueued before its capture
    return capture_ == now ? event_.get() : nullptr;
  }
  return here && capture_ != 0 ? context.launched() : event_.get();
}

bool CudaEvent::done() const {
  auto const answer = forget_not_ready(cudaEventQuery(asked()));
  if (answer == cudaErrorNotReady) {
    return false;
  }
  context_.expect(answer, "cudaEventQuery");
  return true;
}

void CudaEvent::synchronize() const {
  context_.await([event = asked()] { return cudaEventQuery(event); }, "cudaEventQuery");
  context_.failure().rethrow();
}

void CudaEvent::record(CudaContext& context, cudaStream_t stream) {
  context.expect(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
  recorded_by_ = &context;
  stream_ = stream;
  capture_ = context.capture();
}

CudaEvent const& as_cuda(Event const& event) {
  auto const* const cuda = dynamic_cast<CudaEvent const*>(&event);
  ZEROTH_EXPECTS(cuda != nullptr, "a CUDA stream was given an event of another device");
  return *cuda;
}

CudaEvent& as_cuda(Event& event) { return const_cast<CudaEvent&>(as_cuda(std::as_const(event))); }

}  // namespace zeroth::device
