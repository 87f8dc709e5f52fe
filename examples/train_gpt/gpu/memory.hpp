// SPDX-License-Identifier: Apache-2.0
/// Memory of the GPU, and host memory that the GPU reads.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "matrix.hpp"

namespace gpt::gpu {

/// Throws SystemError, which names `call`, if `error` is an error.
void expect(cudaError_t error, char const* call);

/// Allocates pinned host memory, so that copies to and from the GPU are asynchronous. Throws SystemError, which names
/// the size, if out of memory.
[[nodiscard]] void* take_pinned(std::int64_t bytes);

/// Memory of the current GPU, for activations.
struct DeviceMemory {
  /// Alignment of the rows of aligned matrices: a cache line, more than the 16 bytes that cuBLASLt's fast kernels and
  /// accesses of whole packs need.
  static constexpr std::int64_t aligned_row_bytes = 128;
  /// Throws SystemError, which names the size, if out of memory.
  [[nodiscard]] static void* take(std::int64_t bytes);
  static void give_back(void* data) noexcept { static_cast<void>(cudaFree(data)); }  // null is allowed
};
template <class T>
using Matrix = gpt::Matrix<T, DeviceMemory>;

/// Pinned host memory, so that copies to and from the GPU are asynchronous.
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
