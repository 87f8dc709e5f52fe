// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_kernels.hpp"

#include <variant>

#include "device/cuda_launch.hpp"
#include "device/cuda_orthogonal.hpp"
#include "device/cuda_stream.hpp"
#include "device/kernel_arguments.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// Calls `launch(cudaStream_t)` unless the device has failed.
template <class Launch>
void enqueue(Stream& stream, char const* call, Launch const& launch) {
  auto& cuda = as_cuda(stream);
  if (!cuda.failed()) {
    cuda.context().expect(launch(cuda.get()), call);
  }
}

}  // namespace

void CudaKernels::fill(Stream& stream, void* data, std::int64_t bytes, std::uint8_t value) {
  expect_bytes("fill", bytes);
  enqueue(stream, "cudaMemsetAsync", [&](cudaStream_t on) {
    return bytes == 0 ? cudaSuccess : cudaMemsetAsync(data, value, static_cast<std::size_t>(bytes), on);
  });
}

void CudaKernels::copy(Stream& stream, void* destination, void const* source, std::int64_t bytes) {
  expect_bytes("copy", bytes);
  as_cuda(stream).copy(destination, source, bytes);
}

void CudaKernels::convert(Stream& stream, void* destination, Dtype destination_dtype, void const* source,
                          Dtype source_dtype, std::int64_t count) {
  expect_convert(destination_dtype, source_dtype, count);
  enqueue(stream, "convert", [&](cudaStream_t on) {
    return cuda::convert(on, destination, destination_dtype, source, source_dtype, count);
  });
}

void CudaKernels::reduce_epilogue(Stream& stream, ReduceEpilogue const& args) {
  expect_reduce_epilogue(args);
  enqueue(stream, "reduce_epilogue", [&](cudaStream_t on) { return cuda::reduce_epilogue(on, args); });
}

void CudaKernels::encode(Stream& stream, Encode const& args) {
  expect_encode(args);
  enqueue(stream, "encode", [&](cudaStream_t on) { return cuda::encode(on, args); });
}

void CudaKernels::quantise(Stream& stream, Quantise const& args) {
  expect_quantise(args);
  enqueue(stream, "quantise", [&](cudaStream_t on) { return cuda::quantise(on, args); });
}

void CudaKernels::fold_received(Stream& stream, FoldReceived const& args) {
  expect_fold_received(args);
  enqueue(stream, "fold_received", [&](cudaStream_t on) { return cuda::fold_received(on, args); });
}

void CudaKernels::collect(Stream& stream, std::span<float const> block_sums, optim::ExactSum* sum) {
  enqueue(stream, "collect",
          [&](cudaStream_t on) { return cuda::collect(on, block_sums.data(), std::ssize(block_sums), sum); });
}

void CudaKernels::add_loss(Stream& stream, optim::LossTerm const& term, optim::StepSums* contribution) {
  enqueue(stream, "add_loss", [&](cudaStream_t on) { return cuda::add_loss(on, term, contribution); });
}

void CudaKernels::advance(Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
                          optim::StepScalars* scalars) {
  enqueue(stream, "advance", [&](cudaStream_t on) { return cuda::advance(on, rules, total, scalars); });
}

bool CudaKernels::runs(optim::Rule const& rule) const { return !std::holds_alternative<optim::CustomRule>(rule); }

void CudaKernels::update(Stream& stream, optim::UpdateArgs const& args) {
  expect_update(args);
  enqueue(stream, "update", [&](cudaStream_t on) { return cuda::update(on, args); });
}

void CudaKernels::move_moments(Stream& stream, MoveMoments const& args) {
  expect_move_moments(args);
  enqueue(stream, "move_moments", [&](cudaStream_t on) { return cuda::move_moments(on, args); });
}

void CudaKernels::trust_ratios(Stream& stream, TrustRatios const& args) {
  enqueue(stream, "trust_ratios", [&](cudaStream_t on) { return cuda::trust_ratios(on, args); });
}

void CudaKernels::direction(Stream& stream, optim::DirectionArgs const& args) {
  expect_direction(args);
  enqueue(stream, "direction", [&](cudaStream_t on) { return cuda::direction(on, args); });
}

void CudaKernels::orthogonalise(Stream& stream, optim::OrthogonalArgs const& args) {
  expect_orthogonalise(args);
  enqueue(stream, "orthogonalise", [&](cudaStream_t on) {
    if (products_ == nullptr) {
      products_ = std::make_unique<CudaProducts>();
    }
    return device::orthogonalise(on, args, *products_);
  });
}

void CudaKernels::prepare_orthogonalise(Stream& stream, optim::OrthogonalArgs const& args) {
  orthogonalise(stream, args);
}

void CudaKernels::update_on_host(Stream& stream, HostUpdate const& update) {
  expect_update(update);
  // A thread of CUDA's calls this, and it must not call CUDA. It cannot throw: only a program's own rules may, and they
  // do not run here.
  auto const run = [](void* data) {
    auto const& of = *static_cast<HostUpdate const*>(data);
    of.team->run(of.shares);
  };
  enqueue(stream, "cudaLaunchHostFunc",
          [&](cudaStream_t on) { return cudaLaunchHostFunc(on, run, const_cast<HostUpdate*>(&update)); });
}

}  // namespace zeroth::device
