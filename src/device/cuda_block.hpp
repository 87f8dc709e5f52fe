// SPDX-License-Identifier: Apache-2.0
/// Memory of a GPU and of the host beside it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "device/cuda_call.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::device {

/// Throws ContractError where the library was built without the allocator of `buffers`, SystemError where it cannot be
/// loaded.
void expect_allocator(CudaBuffers buffers);

/// As set_cuda_allocator().
void choose_cuda_allocator(CudaAllocator allocator);
/// What that was given last; empty functions are CUDA's own.
[[nodiscard]] std::shared_ptr<CudaAllocator const> cuda_allocator();

/// Where blocks of a GPU's memory come from, and go back to.
struct BlockSource {
  CudaBuffers buffers = CudaBuffers::plain;
  std::shared_ptr<CudaAllocator const> allocator = {};  ///< For plain ones.
  StreamRef stream = {};                                ///< That the allocator is told of.

  [[nodiscard]] bool is_the_programs() const noexcept {
    return buffers == CudaBuffers::plain && allocator != nullptr && allocator->allocate;
  }
  [[nodiscard]] char const* name() const noexcept;
  /// Why a block was not to be had; empty if it was.
  [[nodiscard]] std::string take(void** block, std::int64_t bytes) const;
  void give_back(void* block, std::int64_t bytes) const noexcept;
};

/// An arena of one category, not filled yet.
class CudaMemory final : public Memory {
 public:
  CudaMemory(CudaContext& context, Ledger& ledger, Category category, std::int64_t bytes, BlockSource source);
  ~CudaMemory() override;
  [[nodiscard]] bool registrable() const noexcept override { return source_.buffers == CudaBuffers::registrable; }

 private:
  Ledger& ledger_;
  Category category_;
  BlockSource source_;
  void* block_ = nullptr;  // starts at or before data()
  std::int64_t block_bytes_ = 0;
};

/// Pinned memory of the host, which every GPU of the process reaches. Filled with zeros.
class CudaHostMemory final : public Memory {
 public:
  /// `purpose` is for messages.
  CudaHostMemory(CudaContext& context, std::int64_t bytes, std::string_view purpose = "memory that host and GPU share");
  ~CudaHostMemory() override;
};

}  // namespace zeroth::device
