// SPDX-License-Identifier: Apache-2.0
/// Memory of the GPU, and of the host where the GPU reads it.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "zeroth/core/dtype.hpp"

namespace gpt::gpu {

/// Throws SystemError that names `call`, if `error` is one.
void expect(cudaError_t error, char const* call);

/// Memory of the current GPU, for activations. Throws SystemError that names the bytes if there are no more.
[[nodiscard]] void* take_memory(std::int64_t bytes);
/// Memory of the host that copies to and from the GPU do not wait for; likewise.
[[nodiscard]] void* take_pinned(std::int64_t bytes);

/// Where rows of aligned matrices begin: at multiples of a cache line, which is more than the 16 bytes that cuBLASLt's
/// fast kernels and accesses of whole packs ask for.
inline constexpr std::int64_t aligned_row_bytes = 128;

/// A row-major matrix of activations. Takes memory when it gets its shape first and keeps it, as Eigen's do.
template <class T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(Matrix&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)},
        capacity_{other.capacity_},
        rows_{other.rows_},
        cols_{other.cols_},
        stride_{other.stride_} {}
  Matrix& operator=(Matrix&&) = delete;
  ~Matrix() { static_cast<void>(cudaFree(data_)); }  // null is fine

  /// What was in it is lost if it grows. Throws SystemError if the GPU has no more.
  void resize(std::int64_t rows, std::int64_t cols) { resize(rows, cols, cols); }
  /// For any `cols`, rows that begin at multiples of aligned_row_bytes. What lies between them is anything.
  void resize_aligned(std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t unit = aligned_row_bytes / std::int64_t{sizeof(T)};
    resize(rows, cols, (cols + unit - 1) / unit * unit);
  }
  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] T const* data() const noexcept { return data_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  /// Elements from the beginning of a row to that of the next.
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  [[nodiscard]] std::int64_t count() const noexcept { return rows_ * cols_; }

 private:
  void resize(std::int64_t rows, std::int64_t cols, std::int64_t stride) {
    rows_ = rows;
    cols_ = cols;
    stride_ = stride;
    if (rows * stride > capacity_) {
      static_cast<void>(cudaFree(std::exchange(data_, nullptr)));
      capacity_ = 0;  // should the GPU have no more
      data_ = static_cast<T*>(take_memory(rows * stride * std::int64_t{sizeof(T)}));
      capacity_ = rows * stride;
    }
  }

  T* data_ = nullptr;
  std::int64_t capacity_ = 0, rows_ = 0, cols_ = 0, stride_ = 0;
};

/// Host memory that copies to and from the GPU do not wait for.
template <class T>
class Pinned {
 public:
  explicit Pinned(std::int64_t count) : data_{static_cast<T*>(take_pinned(count * std::int64_t{sizeof(T)}))} {}
  Pinned(Pinned const&) = delete;
  Pinned& operator=(Pinned const&) = delete;
  ~Pinned() { static_cast<void>(cudaFreeHost(data_)); }
  [[nodiscard]] T* data() const noexcept { return data_; }

 private:
  T* data_;
};

}  // namespace gpt::gpu
