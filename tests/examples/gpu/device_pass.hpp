// SPDX-License-Identifier: Apache-2.0
/// A Pass without an engine, on a GPU or an emulated one.
#pragma once
#include <cuda_runtime_api.h>

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "examples/gpu/numbers.hpp"
#include "examples/reference_pass.hpp"
#include "gpu/gpu.hpp"
#include "zeroth/engine/guards.hpp"

namespace gpt::testing {

/// A stream, and copies on it that the host waits for.
class Stream {
 public:
  Stream() { gpu::expect(cudaStreamCreateWithPriority(&raw_, cudaStreamNonBlocking, 0), "cudaStreamCreate"); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  ~Stream() { static_cast<void>(cudaStreamDestroy(raw_)); }
  [[nodiscard]] cudaStream_t raw() const noexcept { return raw_; }

  template <class T>
  void upload(T* to, std::vector<T> const& values) const {
    gpu::Pinned<T> const host{std::ssize(values)};
    std::memcpy(host.data(), values.data(), values.size() * sizeof(T));
    copy(to, host.data(), values.size() * sizeof(T));
  }
  template <class T>
  [[nodiscard]] std::vector<T> download(T const* from, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    gpu::Pinned<T> const host{count};
    copy(host.data(), from, values.size() * sizeof(T));
    std::memcpy(values.data(), host.data(), values.size() * sizeof(T));
    return values;
  }
  void wait() const {
    cudaError_t answer = cudaStreamQuery(raw_);
    for (; answer == cudaErrorNotReady; answer = cudaStreamQuery(raw_)) {
      std::this_thread::yield();
    }
    gpu::expect(answer, "cudaStreamQuery");
  }

 private:
  void copy(void* to, void const* from, std::size_t bytes) const {
    gpu::expect(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, raw_), "cudaMemcpyAsync");
    wait();
  }
  cudaStream_t raw_ = nullptr;
};

template <class T>
[[nodiscard]] gpu::Matrix<T> on_device(Stream const& stream, std::vector<T> const& values, std::int64_t columns) {
  gpu::Matrix<T> matrix;
  matrix.resize(std::ssize(values) / columns, columns);
  stream.upload(matrix.data(), values);
  return matrix;
}

/// Copies to aligned rows, with NaN between them.
template <class T>
[[nodiscard]] gpu::Matrix<T> on_device_aligned(Stream const& stream, std::vector<T> const& values,
                                               std::int64_t columns) {
  gpu::Matrix<T> matrix;
  matrix.resize_aligned(std::ssize(values) / columns, columns);
  auto rows = garbage<T>(matrix.rows() * matrix.stride());
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    rows[static_cast<std::size_t>(i / columns * matrix.stride() + i % columns)] = values[static_cast<std::size_t>(i)];
  }
  stream.upload(matrix.data(), rows);
  return matrix;
}

/// Leaves out elements between rows.
template <class T>
[[nodiscard]] std::vector<T> values_of(Stream const& stream, gpu::Matrix<T> const& matrix) {
  auto const rows = stream.download(matrix.data(), matrix.rows() * matrix.stride());
  std::vector<T> values;
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    auto const begin = rows.begin() + row * matrix.stride();
    values.insert(values.end(), begin, begin + matrix.cols());
  }
  return values;
}

/// Parameters and gradients of a whole model. Starts with the values of `reference`, which it rounds to T.
template <class T, class G>
class DevicePass {
 public:
  DevicePass(Stream const& stream, gpu::Gpu<T>& gpu, ReferencePass<double>& reference) : stream_{stream}, gpu_{gpu} {
    for (auto& values : reference.values) {
      values_.push_back(on_device(stream, rounded<T>(values), std::ssize(values)));
      gradients_.push_back(on_device(stream, garbage<G>(std::ssize(values)), std::ssize(values)));
    }
    written_.assign(values_.size(), false);
  }

  struct Guard {
    DevicePass& pass;
    template <std::size_t D>
    [[nodiscard]] zeroth::View<T const, D> operator[](Param<D> const& p) const {
      return {pass.values_[index_of(p)].data(), p.shape()};
    }
    template <std::size_t D>
    [[nodiscard]] zeroth::Gradient<G, D> grad(Param<D> const& p) const {
      bool const first = !std::exchange(pass.written_[index_of(p)], 1);
      auto* const memory = pass.gradients_[index_of(p)].data();
      return zeroth::detail::gradient_in<G>({.engine = nullptr, .data = memory, .beta = first ? 0.0F : 1.0F},
                                            p.shape());
    }
  };
  [[nodiscard]] OpenUnit<gpu::Gpu<T>, Guard> forward(zeroth::Unit) { return {gpu_, {*this}}; }
  [[nodiscard]] OpenUnit<gpu::Gpu<T>, Guard> backward(zeroth::Unit) { return {gpu_, {*this}}; }

  [[nodiscard]] std::vector<G> gradient(std::size_t param) const {
    return stream_.download(gradients_[param].data(), gradients_[param].count());
  }

 private:
  Stream const& stream_;
  gpu::Gpu<T>& gpu_;
  std::vector<gpu::Matrix<T>> values_;
  std::vector<gpu::Matrix<G>> gradients_;
  std::vector<char> written_;
};

}  // namespace gpt::testing
