// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_graphs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// With earlier drivers, NCCL's collectives of several communicators lose their order within a graph.
constexpr int first_driver = 12090;

/// Makes `later` wait for what was enqueued on `earlier`.
void follow(CudaContext& context, cudaStream_t later, cudaStream_t earlier, CudaEventHandle const& event) {
  context.expect(cudaEventRecord(event.get(), earlier), "cudaEventRecord");
  context.expect(cudaStreamWaitEvent(later, event.get(), 0), "cudaStreamWaitEvent");
}

class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaContext& context, cudaStream_t compute, std::vector<cudaStream_t> beside,
            std::shared_ptr<CudaEventHandle> launched, cudaGraphExec_t graph)
      : context_{context},
        compute_{compute},
        beside_{std::move(beside)},
        before_{context, CudaEventHandle::Kind::order},
        launched_{std::move(launched)},
        graph_{graph} {}
  ~CudaGraph() override { static_cast<void>(cudaGraphExecDestroy(graph_)); }

  void launch() override {
    context_.failure().rethrow();
    context_.expect_no_capture();
    for (auto* const stream : beside_) {
      follow(context_, compute_, stream, before_);
    }
    context_.expect(cudaGraphLaunch(graph_, compute_), "cudaGraphLaunch");
    context_.expect(cudaEventRecord(launched_->get(), compute_), "cudaEventRecord");
    context_.set_launched(launched_->get());
    for (auto* const stream : beside_) {
      context_.expect(cudaStreamWaitEvent(stream, launched_->get(), 0), "cudaStreamWaitEvent");
    }
  }

 private:
  CudaContext& context_;
  cudaStream_t compute_;
  std::vector<cudaStream_t> beside_;
  CudaEventHandle before_;
  std::shared_ptr<CudaEventHandle> launched_;
  cudaGraphExec_t graph_;
};

}  // namespace

std::string CudaGraphs::why_none(CudaStream const& compute) const {
  if (compute.get() == nullptr || compute.get() == cudaStreamPerThread || compute.get() == cudaStreamLegacy) {
    return fmt::format(
        "cuda:{} computes on a default stream, which CUDA cannot capture; compute on a stream that the "
        "program created",
        context_.ordinal());
  }
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (driver < first_driver) {
    return fmt::format(
        "the driver is one for CUDA {}.{}, which does not keep collectives of several communicators in "
        "order within a graph; install one for CUDA {}.{} or newer",
        driver / 1000, driver % 1000 / 10, first_driver / 1000, first_driver % 1000 / 10);
  }
  return {};
}

void CudaGraphs::begin(CudaStream& compute, std::span<Stream* const> streams) {
  ZEROTH_EXPECTS(context_.capture() == 0, "begin_capture() while work is being captured");
  if (auto const why = why_none(compute); !why.empty()) {
    throw ContractError{why};
  }
  compute_ = compute.get();
  beside_.clear();
  for (auto* const stream : streams) {
    if (auto* const native = as_cuda(*stream).get(); native != compute_) {
      beside_.push_back(native);
    }
  }
  if (launched_ == nullptr) {
    launched_ = std::make_shared<CudaEventHandle>(context_, CudaEventHandle::Kind::order);
  }
  while (joins_.size() < beside_.size() + 1) {
    joins_.push_back(std::make_unique<CudaEventHandle>(context_, CudaEventHandle::Kind::order));
  }
  for (std::size_t i = 0; i < beside_.size(); ++i) {
    follow(context_, compute_, beside_[i], *joins_[i]);
  }
  // Other threads, such as those of NCCL and of a save, continue with calls that would end a capture of all threads.
  context_.expect(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  context_.set_capture(++captures_);
  for (auto* const stream : beside_) {
    follow(context_, stream, compute_, *joins_[beside_.size()]);
  }
}

std::unique_ptr<Graph> CudaGraphs::end() {
  ZEROTH_EXPECTS(context_.capture() != 0, "end_capture() without begin_capture()");
  cudaGraph_t graph = nullptr;
  try {
    for (std::size_t i = 0; i < beside_.size(); ++i) {
      follow(context_, compute_, beside_[i], *joins_[i]);
    }
    auto const ended = cudaStreamEndCapture(compute_, &graph);
    context_.set_capture(0);
    context_.expect(ended, "cudaStreamEndCapture");
  } catch (...) {
    drop();  // otherwise the device could not even free memory
    throw;
  }
  cudaGraphExec_t executable = nullptr;
  auto const made = cudaGraphInstantiate(&executable, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  context_.expect(made, "cudaGraphInstantiate");
  return std::make_unique<CudaGraph>(context_, compute_, beside_, launched_, executable);
}

/// An error may have ended the recording half way.
void CudaGraphs::drop() noexcept {
  if (context_.capture() != 0) {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(compute_, &graph));
    static_cast<void>(graph == nullptr ? cudaSuccess : cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
    context_.set_capture(0);
  }
}

}  // namespace zeroth::device
