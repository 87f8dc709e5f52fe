// SPDX-License-Identifier: Apache-2.0
/// Matrices of activations, in a device's memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

namespace gpt {

/// Row-major. Takes memory when it gets its shape first and keeps it, as Eigen's do; what is in it then is anything.
/// `Memory` has take(bytes), which throws if there are no more, give_back(data), and aligned_row_bytes.
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
  ~Matrix() { Memory::give_back(data_); }  // null is fine

  /// What was in it is lost if it grows. Throws what Memory::take() throws.
  void resize(std::int64_t rows, std::int64_t cols) { resize(rows, cols, cols); }
  /// For any `cols`, rows that begin where the device likes them to. What lies between them is anything.
  void resize_aligned(std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t unit = std::max<std::int64_t>(1, Memory::aligned_row_bytes / std::int64_t{sizeof(T)});
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
    if (rows * stride > capacity_) {
      Memory::give_back(std::exchange(data_, nullptr));
      capacity_ = 0;  // should there be no more
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

}  // namespace gpt
