// SPDX-License-Identifier: Apache-2.0
/// Memory of a GPU and of the host beside it.
#pragma once
#include <string_view>

#include "device/cuda_call.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::device {

/// Throws ContractError where the library was built without the allocator of `buffers`, SystemError where it cannot be
/// loaded.
void expect_allocator(CudaBuffers buffers);

/// An arena of one category, not filled yet.
class CudaMemory final : public Memory {
 public:
  CudaMemory(CudaContext& context, Ledger& ledger, Category category, std::int64_t bytes, CudaBuffers buffers);
  ~CudaMemory() override;
  [[nodiscard]] bool registrable() const noexcept override { return buffers_ == CudaBuffers::registrable; }

 private:
  Ledger& ledger_;
  Category category_;
  CudaBuffers buffers_;
  void* block_ = nullptr;  // starts at or before data()
};

/// Pinned memory of the host, which every GPU of the process reaches. Filled with zeros.
class CudaHostMemory final : public Memory {
 public:
  /// `purpose` is for messages.
  CudaHostMemory(CudaContext& context, std::int64_t bytes, std::string_view purpose = "memory that host and GPU share");
  ~CudaHostMemory() override;
};

}  // namespace zeroth::device
