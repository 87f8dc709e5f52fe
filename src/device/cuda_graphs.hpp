// SPDX-License-Identifier: Apache-2.0
/// Captures what a device's streams enqueue, as CUDA graphs.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cuda_call.hpp"
#include "device/cuda_event.hpp"
#include "device/cuda_stream.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// A device's captures, one at a time. Graphs run one after another: each is launched on the compute stream, and each
/// of its other streams joins that stream at its end.
class CudaGraphs {
 public:
  explicit CudaGraphs(CudaContext& context) : context_{context} {}
  CudaGraphs(CudaGraphs const&) = delete;
  CudaGraphs& operator=(CudaGraphs const&) = delete;
  ~CudaGraphs() { drop(); }
  /// See Device.
  [[nodiscard]] std::string why_none(CudaStream const& compute) const;
  void begin(CudaStream& compute, std::span<Stream* const> streams);
  [[nodiscard]] std::unique_ptr<Graph> end();

 private:
  void drop() noexcept;

  CudaContext& context_;
  cudaStream_t compute_ = nullptr;
  std::vector<cudaStream_t> beside_;  // streams other than compute
  /// Between compute and the others: events of a capture, of which one may only be recorded within it.
  std::vector<std::unique_ptr<CudaEventHandle>> joins_;
  std::shared_ptr<CudaEventHandle> launched_;
  std::uint64_t captures_ = 0;
};

}  // namespace zeroth::device
