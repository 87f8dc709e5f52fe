// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_stream.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

#include "device/cuda_launch.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

cuda::RankFold fold_of(void const* const* inputs, int input_count, Dtype dtype, std::int64_t count) {
  cuda::RankFold args{};
  std::copy_n(inputs, input_count, args.inputs);
  args.input_count = input_count;
  args.dtype = dtype;
  args.count = count;
  return args;
}

}  // namespace

CudaStream::CudaStream(std::string name, Role role, CudaContext& context, CudaSpans& spans, cudaStream_t stream)
    : name_{std::move(name)}, role_{role}, context_{context}, spans_{spans}, stream_{stream}, owned_{false} {
  if (role != Role::beside) {
    times_ = std::make_unique<CudaTimes>(context);
  }
}

CudaStream::CudaStream(std::string name, Role role, CudaContext& context, CudaSpans& spans)
    : CudaStream{std::move(name), role, context, spans, nullptr} {
  int least = 0;
  int greatest = 0;
  context_.expect(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  // Communication has priority: its few blocks get the next free places, and compute fills the rest.
  context_.expect(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, role == Role::beside ? greatest : least),
      "cudaStreamCreateWithPriority");
  owned_ = true;
}

CudaStream::~CudaStream() {
  if (!owned_) {
    return;
  }
  try {
    context_.await([this] { return cudaStreamQuery(stream_); }, "cudaStreamQuery");
  } catch (...) {  // the device has failed and runs nothing any more
    fail(std::current_exception());
  }
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaStream::wait(Event const& event) {
  context_.failure().rethrow();
  auto* const awaited = as_cuda(event).awaited_by(context_, stream_);
  if (awaited == nullptr) {
    return;
  }
  bool const measured = !captures() && (role_ == Role::compute || (role_ == Role::in_line && !in_span_));
  if (measured) {
    times_->begin(stream_);
  }
  auto span = spans_.open(stream_, name_, "wait", "");
  context_.expect(cudaStreamWaitEvent(stream_, awaited, 0), "cudaStreamWaitEvent");
  if (span != nullptr) {
    spans_.close(std::move(span), stream_);
  }
  if (measured) {
    times_->end(stream_);
  }
}

void CudaStream::record(Event& event) {
  auto& cuda = as_cuda(event);
  try {
    cuda.record(context_, stream_);
  } catch (...) {
    fail(std::current_exception());
  }
}

void CudaStream::synchronize() {
  context_.expect_no_capture();
  context_.await([this] { return cudaStreamQuery(stream_); }, "cudaStreamQuery");
  context_.failure().rethrow();
  if (role_ == Role::compute) {
    spans_.flush();
  }
}

double CudaStream::waited_ms() const { return role_ == Role::compute ? times_->milliseconds() : 0; }

double CudaStream::host_ms() const { return role_ == Role::in_line ? times_->milliseconds() : 0; }

void CudaStream::begin_span(std::string_view what, std::string_view unit) {
  in_span_ = true;
  if (role_ == Role::in_line && !captures()) {
    times_->begin(stream_);
  }
  span_ = spans_.open(stream_, name_, what, unit);
}

void CudaStream::end_span() {
  in_span_ = false;
  try {  // this also ends scopes during unwinding
    if (span_ != nullptr) {
      spans_.close(std::move(span_), stream_);
    }
    if (role_ == Role::in_line && !captures()) {
      times_->end(stream_);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

std::unique_ptr<Event> CudaStream::make_event() { return std::make_unique<CudaEvent>(context_); }

void CudaStream::follow(Event const& event) {
  context_.reach(as_cuda(event).ordinal());
  wait(event);
}

void CudaStream::fold(Reduce reduce, void* const* outputs, int output_count, void const* const* inputs, int input_count,
                      Dtype dtype, std::int64_t first, std::int64_t count, double factor) {
  if (failed() || count == 0) {
    return;
  }
  // A single input is the result already. In place, where it may be all gradients of a model, nothing is copied.
  if (input_count == 1 && factor == 1) {
    auto const begin = first * bytes_of(dtype);
    std::for_each_n(outputs, output_count, [&](void* output) {
      copy(static_cast<std::byte*>(output) + begin, static_cast<std::byte const*>(inputs[0]) + begin,
           count * bytes_of(dtype));
    });
    return;
  }
  auto args = fold_of(inputs, input_count, dtype, count);
  args.reduce = reduce;
  args.factor = factor;
  std::copy_n(outputs, output_count, args.outputs);
  args.output_count = output_count;
  args.first = first;
  context_.expect(cuda::rank_fold(stream_, args), "rank_fold");
}

void CudaStream::sum_into(float* sums, bool accumulate, void const* const* inputs, int input_count, Dtype dtype,
                          std::int64_t count) {
  if (failed() || count == 0) {
    return;
  }
  auto args = fold_of(inputs, input_count, dtype, count);
  args.sums = sums;
  args.accumulate = accumulate;
  context_.expect(cuda::rank_fold(stream_, args), "rank_fold");
}

void CudaStream::copy(void* destination, void const* source, std::int64_t bytes) {
  if (failed() || bytes == 0 || destination == source) {
    return;
  }
  context_.expect(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_),
                  "cudaMemcpyAsync");
}

int CudaStream::most_ranks() const noexcept { return cuda::RankFold::most_ranks; }

CudaStream& as_cuda(Stream& stream) {
  auto* const cuda = dynamic_cast<CudaStream*>(&stream);
  ZEROTH_EXPECTS(cuda != nullptr, "a stream of another device was given where one of a GPU is needed");
  return *cuda;
}

}  // namespace zeroth::device
