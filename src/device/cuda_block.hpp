// SPDX-License-Identifier: Apache-2.0
/// Memory of a GPU, and pinned memory of the host.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "device/cuda_call.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::device {

/// Throws ContractError if the library was built without the allocator of `buffers`, and SystemError if it cannot be
/// loaded.
void expect_allocator(CudaBuffers buffers);

/// Implements set_cuda_allocator().
void choose_cuda_allocator(CudaAllocator allocator);
/// The allocator that was set last. Empty functions stand for CUDA's own.
[[nodiscard]] std::shared_ptr<CudaAllocator const> cuda_allocator();

/// Allocates and frees blocks of a GPU's memory.
struct BlockSource {
  CudaBuffers buffers = CudaBuffers::plain;
  std::shared_ptr<CudaAllocator const> allocator = {};  ///< For plain buffers.
  StreamRef stream = {};                                ///< Passed to the allocator.

  [[nodiscard]] bool is_the_programs() const noexcept {
    return buffers == CudaBuffers::plain && allocator != nullptr && allocator->allocate;
  }
  [[nodiscard]] char const* name() const noexcept;
  /// Allocates a block. Returns the reason if that failed, otherwise an empty string.
  [[nodiscard]] std::string take(void** block, std::int64_t bytes) const;
  void give_back(void* block, std::int64_t bytes) const noexcept;
};

/// An arena of one category, with undefined contents.
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

/// Pinned memory of the host, which every GPU of the process can access. Filled with zeros, and taken from the NUMA
/// node that the context's GPU is connected to, as long as that has free memory.
class CudaHostMemory final : public Memory {
 public:
  /// `purpose` appears in messages.
  CudaHostMemory(CudaContext& context, std::int64_t bytes, std::string_view purpose = "memory that host and GPU share");
  ~CudaHostMemory() override;
};

}  // namespace zeroth::device
