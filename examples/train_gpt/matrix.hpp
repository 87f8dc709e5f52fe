// SPDX-License-Identifier: Apache-2.0
/// Matrices of activations in device memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

namespace gpt {

/// A row-major matrix. resize() allocates memory and keeps it, as Eigen's matrices do; its contents are unspecified
/// then. `Memory` has take(bytes), which throws if out of memory, give_back(data), and aligned_row_bytes.
template <class T, class Memory>
class Matrix {
 public:
  Matrix() = default;
  Matrix(Matrix&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)},
        capacity_{std::exchange(other.capacity_, 0)},
        rows_{std::exchange(other.rows_, 0)},
        cols_{std::exchange(other.cols_, 0)},
        stride_{std::exchange(other.stride_, 0)} {}
  Matrix& operator=(Matrix&&) = delete;
  ~Matrix() { Memory::give_back(data_); }  // null is allowed

  /// Loses the contents if the matrix grows. Throws what Memory::take() throws.
  void resize(std::int64_t rows, std::int64_t cols) { resize(rows, cols, cols); }
  /// For any `cols`, aligns rows as the device prefers. Elements between rows are unspecified.
  void resize_aligned(std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t unit = std::max<std::int64_t>(1, Memory::aligned_row_bytes / std::int64_t{sizeof(T)});
    resize(rows, cols, (cols + unit - 1) / unit * unit);
  }
  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] T const* data() const noexcept { return data_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  /// Elements from the start of one row to the next.
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  [[nodiscard]] std::int64_t count() const noexcept { return rows_ * cols_; }

 private:
  void resize(std::int64_t rows, std::int64_t cols, std::int64_t stride) {
    if (rows * stride > capacity_) {
      Memory::give_back(std::exchange(data_, nullptr));
      capacity_ = 0;  // stays 0 if take() throws
      data_ = static_cast<T*>(Memory::take(rows * stride * std::int64_t{sizeof(T)}));
      capacity_ = rows * stride;
    }
    rows_ = rows;
    cols_ = cols;
    stride_ = stride;
  }

  T* data_ = nullptr;
  std::int64_t capacity_ = 0, rows_ = 0, cols_ = 0, stride_ = 0;
};

/// A matrix of another type in the memory of an existing one, whose rows begin at the same addresses.
template <class T>
class InRowsOf {
 public:
  template <class V, class Memory>
  explicit InRowsOf(Matrix<V, Memory>& matrix)
      : data_{reinterpret_cast<T*>(matrix.data())},
        rows_{matrix.rows()},
        cols_{matrix.cols()},
        stride_{matrix.stride() * std::int64_t{sizeof(V)} / std::int64_t{sizeof(T)}} {
    static_assert(sizeof(V) % sizeof(T) == 0);
  }
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }

 private:
  T* data_;
  std::int64_t rows_, cols_, stride_;
};

}  // namespace gpt
