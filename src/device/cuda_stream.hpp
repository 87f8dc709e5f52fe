// SPDX-License-Identifier: Apache-2.0
/// Streams of the CUDA device.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "device/cuda_call.hpp"
#include "device/cuda_times.hpp"
#include "device/peer_stream.hpp"

namespace zeroth::device {

class CudaStream final : public PeerStream {
 public:
  enum class Role : std::uint8_t {
    compute,  ///< The caller's stream, if it gave one. Its waits are measured.
    beside,   ///< Runs concurrently with compute, at higher priority.
    in_line,  ///< Another name of the compute stream, for work that does not overlap. Its work and waits are measured.
  };
  /// Does not own `stream`: it is the caller's or another CudaStream's.
  CudaStream(std::string name, Role role, CudaContext& context, CudaSpans& spans, cudaStream_t stream);
  CudaStream(std::string name, Role role, CudaContext& context, CudaSpans& spans);
  ~CudaStream() override;  ///< Waits for all enqueued work if it owns its stream.

  void wait(Event const& event) override;
  void record(Event& event) override;
  void synchronize() override;
  [[nodiscard]] double waited_ms() const override;
  [[nodiscard]] double host_ms() const override;
  void begin_span(std::string_view what, std::string_view unit) override;
  void end_span() override;
  [[nodiscard]] StreamRef native() const noexcept override { return {stream_}; }

  [[nodiscard]] std::unique_ptr<Event> make_event() override;
  void follow(Event const& event) override;
  void fold(Reduce reduce, void* const* outputs, int output_count, void const* const* inputs, int input_count,
            Dtype dtype, std::int64_t first, std::int64_t count, double factor) override;
  void sum_into(float* sums, bool accumulate, void const* const* inputs, int input_count, Dtype dtype,
                std::int64_t count) override;
  void copy(void* destination, void const* source, std::int64_t bytes) override;
  void fail(std::exception_ptr error) noexcept override { context_.failure().set(std::move(error)); }
  [[nodiscard]] bool failed() const noexcept override { return context_.failure().failed(); }
  [[nodiscard]] bool captures() const noexcept override { return context_.capture() != 0; }
  [[nodiscard]] std::shared_ptr<Failure> failure() const override { return context_.shared_failure(); }
  [[nodiscard]] int most_ranks() const noexcept override;

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
  [[nodiscard]] CudaContext& context() noexcept { return context_; }

 private:
  std::string name_;
  Role role_;
  CudaContext& context_;
  CudaSpans& spans_;
  cudaStream_t stream_ = nullptr;
  bool owned_;
  std::unique_ptr<CudaTimes> times_;  // null for Role::beside
  bool in_span_ = false;
  CudaSpans::Open span_;  // the open span, if there is a timeline
};

/// Throws ContractError for a stream of another device.
[[nodiscard]] CudaStream& as_cuda(Stream& stream);

}  // namespace zeroth::device
