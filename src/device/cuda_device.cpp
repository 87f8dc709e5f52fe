// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "device/cuda_block.hpp"
#include "device/cuda_call.hpp"
#include "device/cuda_event.hpp"
#include "device/cuda_gpus.hpp"
#include "device/cuda_graphs.hpp"
#include "device/cuda_kernels.hpp"
#include "device/cuda_storage.hpp"
#include "device/cuda_stream.hpp"
#include "device/cuda_times.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::device {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, CudaBuffers buffers) : context_{ordinal}, buffers_{buffers} {
    expect_allocator(buffers);
    int const count = cuda_device_count();
    ZEROTH_EXPECTS(ordinal >= 0 && ordinal < count,
                   fmt::format("make_cuda_device({}): this process sees {} GPU{}{}", ordinal, count,
                               count == 1 ? "" : "s", count == 0 ? ": " + why_no_gpu() : ""));
    context_.expect(cudaSetDevice(ordinal), "cudaSetDevice");
    expect_kernels(ordinal);
  }
  ~CudaDevice() override {
    try {
      spans_.end();
    } catch (...) {  // a failed device has nothing more to report
      context_.failure().set(std::current_exception());
    }
  }
  [[nodiscard]] std::string name() const override { return fmt::format("cuda:{}", context_.ordinal()); }
  [[nodiscard]] std::unique_ptr<Memory> allocate(Category category, std::int64_t bytes) override {
    bool const sent =
        category == Category::parameters || category == Category::gradients || category == Category::slots;
    return zeros(ledger_, category, bytes, sent ? buffers_ : CudaBuffers::plain);
  }
  [[nodiscard]] std::unique_ptr<Memory> allocate_for_program(std::int64_t bytes) override {
    return zeros(of_program_, Category::slots, bytes, CudaBuffers::plain);
  }
  [[nodiscard]] std::unique_ptr<Memory> allocate_host(std::int64_t bytes) override {
    return std::make_unique<CudaHostMemory>(context_, bytes);
  }
  [[nodiscard]] std::unique_ptr<Storage> make_host_storage(std::int64_t bytes, std::string_view purpose,
                                                           std::string_view contents) override {
    return std::make_unique<CudaStorage>(context_, bytes, purpose, contents);
  }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(context_); }
  [[nodiscard]] std::unique_ptr<Stream> make_stream(char const* name, Overlap overlap) override {
    using Role = CudaStream::Role;
    if (overlap == Overlap::off) {
      return std::make_unique<CudaStream>(name, Role::in_line, context_, spans_, own_compute().get());
    }
    return std::make_unique<CudaStream>(name, Role::beside, context_, spans_);
  }
  [[nodiscard]] Stream& compute() override { return own_compute(); }
  void compute_on(StreamRef stream) override {
    ZEROTH_EXPECTS(compute_ == nullptr, "compute_on() after the compute stream was used");
    compute_ = std::make_unique<CudaStream>("compute", CudaStream::Role::compute, context_, spans_,
                                            static_cast<cudaStream_t>(stream.native));
  }
  void make_current() noexcept override { context_.note(cudaSetDevice(context_.ordinal()), "cudaSetDevice"); }
  [[nodiscard]] std::string why_no_graphs() override { return graphs_.why_none(own_compute()); }
  void begin_capture(std::span<Stream* const> streams) override { graphs_.begin(own_compute(), streams); }
  [[nodiscard]] std::unique_ptr<Graph> end_capture() override { return graphs_.end(); }
  [[nodiscard]] Kernels& kernels() override { return kernels_; }
  [[nodiscard]] Ledger const& ledger() const override { return ledger_; }
  void flush_timeline() override { spans_.flush(); }
  void set_timeline(Timeline* timeline) noexcept override {
    try {
      if (timeline != nullptr) {
        spans_.begin(*timeline, own_compute().get());
      } else {
        spans_.end();
      }
    } catch (...) {
      context_.failure().set(std::current_exception());
    }
  }

 private:
  [[nodiscard]] std::unique_ptr<Memory> zeros(Ledger& ledger, Category category, std::int64_t bytes,
                                              CudaBuffers buffers) {
    BlockSource const source{buffers, allocator_, {own_compute().get()}};
    auto memory = std::make_unique<CudaMemory>(context_, ledger, category, bytes, source);
    kernels_.fill(compute(), memory->data(), bytes, 0);
    compute().synchronize();
    return memory;
  }
  [[nodiscard]] CudaStream& own_compute() {
    if (compute_ == nullptr) {
      compute_ = std::make_unique<CudaStream>("compute", CudaStream::Role::compute, context_, spans_);
    }
    return *compute_;
  }

  CudaContext context_;
  CudaBuffers buffers_;
  std::shared_ptr<CudaAllocator const> allocator_ = cuda_allocator();
  CudaSpans spans_{context_};
  CudaKernels kernels_;
  Ledger ledger_;
  Ledger of_program_;  // memory from allocate_for_program(), which is not in the plan
  std::unique_ptr<CudaStream> compute_;
  CudaGraphs graphs_{context_};
};

}  // namespace

void set_cuda_allocator(CudaAllocator allocator) { choose_cuda_allocator(std::move(allocator)); }

std::unique_ptr<Device> make_cuda_device(int ordinal, CudaBuffers buffers) {
  return std::make_unique<CudaDevice>(ordinal, buffers);
}

}  // namespace zeroth::device
