// SPDX-License-Identifier: Apache-2.0
/// Where the math of one rank runs on a GPU, and what opens units there.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/launch.hpp"
#include "gpu/matmul.hpp"
#include "gpu/memory.hpp"
#include "units.hpp"

namespace gpt::gpu {

/// A stream and what runs on it. Everything is enqueued: nothing waits.
class Gpu {
 public:
  Gpu(cudaStream_t stream, MatmulOptions const& options) : stream_{stream}, matmul_{stream, options} {}

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  /// Throws SystemError if the launch fails.
  template <class Body>
  void run(Body const& body) const {
    expect(launch(stream_, body, body.work()), "launch of a kernel");
  }
  void multiply(Product const& product) { matmul_(product); }
  /// Sums over chunks of rows, until the next use.
  [[nodiscard]] float* partial_sums(std::int64_t count) {
    if (count > partial_sums_.count()) {
      partial_sums_.resize(1, count);
    }
    return partial_sums_.data();
  }

 private:
  cudaStream_t stream_;
  Matmul matmul_;
  Matrix<float> partial_sums_;
};

/// A unit that is open, and where to work on it.
template <class Guard>
struct OpenUnit {
  Gpu& gpu;
  Guard guard;

  template <std::size_t D>
  [[nodiscard]] auto operator[](Param<D> const& param) const {
    return guard[param];
  }
  template <std::size_t D>
  [[nodiscard]] auto grad(Param<D> const& param) const {
    return guard.grad(param);
  }
};

/// The Pass of GPUs around one of the engine's.
template <class Micro>
class GpuPass {
 public:
  GpuPass(Micro& micro, Gpu& gpu) : micro_{micro}, gpu_{gpu} {}
  [[nodiscard]] auto forward(zeroth::Unit unit) {
    return OpenUnit<decltype(micro_.forward(unit))>{gpu_, micro_.forward(unit)};
  }
  [[nodiscard]] auto backward(zeroth::Unit unit) {
    return OpenUnit<decltype(micro_.backward(unit))>{gpu_, micro_.backward(unit)};
  }

 private:
  Micro& micro_;
  Gpu& gpu_;
};

}  // namespace gpt::gpu
