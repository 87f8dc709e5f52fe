// SPDX-License-Identifier: Apache-2.0
/// Memory of the GPU, and of the host where the GPU reads it.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "matrix.hpp"

namespace gpt::gpu {

/// Throws SystemError that names `call`, if `error` is one.
void expect(cudaError_t error, char const* call);

/// Memory of the host that copies to and from the GPU do not wait for. Throws SystemError that names the bytes if there
/// are no more.
[[nodiscard]] void* take_pinned(std::int64_t bytes);

/// Memory of the current GPU, for activations.
struct DeviceMemory {
  /// Where rows of aligned matrices begin: at multiples of a cache line, which is more than the 16 bytes that
  /// cuBLASLt's fast kernels and accesses of whole packs ask for.
  static constexpr std::int64_t aligned_row_bytes = 128;
  /// Throws SystemError that names the bytes if there are no more.
  [[nodiscard]] static void* take(std::int64_t bytes);
  static void give_back(void* data) noexcept { static_cast<void>(cudaFree(data)); }  // null is fine
};
template <class T>
using Matrix = gpt::Matrix<T, DeviceMemory>;

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
