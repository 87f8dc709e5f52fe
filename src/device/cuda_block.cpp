// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "zeroth/core/error.hpp"
#ifdef ZEROTH_HAS_NCCL
#include "device/nccl_library.hpp"
#endif

namespace zeroth::device {
namespace {

constexpr std::int64_t block_alignment = 4096;

std::string text_of(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

/// Why a block was not to be had; empty if it was.
std::string take_plain(void** block, std::int64_t bytes) {
  auto const error = cudaMalloc(block, static_cast<std::size_t>(bytes));
  return error == cudaSuccess ? std::string{} : text_of(error);
}

#ifdef ZEROTH_HAS_NCCL
std::string take_registrable(void** block, std::int64_t bytes) {
  auto const result = nccl().allocate(block, static_cast<std::size_t>(bytes));
  if (result == ncclSuccess) {
    return {};
  }
  auto const last = cudaGetLastError();  // of a call that NCCL made, if it was one of those that keep it
  return last == cudaSuccess ? nccl().error_string(result)
                             : fmt::format("{}: {}", nccl().error_string(result), text_of(last));
}
void give_back_registrable(void* block) noexcept { static_cast<void>(nccl().free(block)); }
#else
std::string take_registrable(void** /*block*/, std::int64_t /*bytes*/) { return "built without NCCL"; }
void give_back_registrable(void* /*block*/) noexcept {}
#endif

/// The one place that knows which allocator memory comes from.
std::string take(CudaBuffers buffers, void** block, std::int64_t bytes) {
  return buffers == CudaBuffers::plain ? take_plain(block, bytes) : take_registrable(block, bytes);
}
void give_back(CudaBuffers buffers, void* block) noexcept {
  if (buffers == CudaBuffers::plain) {
    static_cast<void>(cudaFree(block));
  } else {
    give_back_registrable(block);
  }
}
char const* name_of_take(CudaBuffers buffers) noexcept {
  return buffers == CudaBuffers::plain ? "cudaMalloc" : "ncclMemAlloc";
}

std::byte* aligned(void* block) noexcept {
  auto const address = reinterpret_cast<std::uintptr_t>(block);
  auto const beyond = address % static_cast<std::uintptr_t>(block_alignment);
  return static_cast<std::byte*>(block) + (beyond == 0 ? 0 : static_cast<std::uintptr_t>(block_alignment) - beyond);
}

std::string refused(char const* call, int ordinal, std::int64_t bytes, std::string_view purpose,
                    std::string_view reason) {
  static_cast<void>(cudaGetLastError());
  return fmt::format("{} on cuda:{} refused {} bytes for {}: {}", call, ordinal, bytes, purpose, reason);
}

std::string what_is_free() {
  std::size_t free = 0;
  std::size_t total = 0;
  auto const known = cudaMemGetInfo(&free, &total) == cudaSuccess;
  return known ? fmt::format("; {} of the GPU's {} bytes are free", free, total) : std::string{};
}

}  // namespace

void expect_allocator(CudaBuffers buffers) {
#ifdef ZEROTH_HAS_NCCL
  if (buffers == CudaBuffers::registrable) {
    static_cast<void>(nccl());
  }
#else
  ZEROTH_EXPECTS(buffers == CudaBuffers::plain,
                 "make_cuda_device(..., CudaBuffers::registrable): such memory comes from NCCL's allocator, and the "
                 "library was built without NCCL (allowed is CudaBuffers::plain)");
#endif
}

CudaMemory::CudaMemory(CudaContext& context, Ledger& ledger, Category category, std::int64_t bytes, CudaBuffers buffers)
    : ledger_{ledger}, category_{category}, buffers_{buffers} {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate({}, {}): bytes must not be negative", name_of(category), bytes));
  if (bytes > 0) {
    auto problem = take(buffers_, &block_, bytes);
    if (problem.empty() && aligned(block_) != block_) {
      // CUDA promises 256 bytes and gives more for all but small blocks, so few ever ask twice.
      give_back(buffers_, block_);
      problem = take(buffers_, &block_, bytes + block_alignment);
    }
    if (!problem.empty()) {
      auto const why = refused(name_of_take(buffers_), context.ordinal(), bytes, name_of(category), problem);
      throw SystemError{why + what_is_free()};
    }
    data_ = aligned(block_);
  }
  bytes_ = bytes;
  ledger_.add(category_, bytes_);
}

CudaMemory::~CudaMemory() {
  ledger_.remove(category_, bytes_);
  if (block_ != nullptr) {
    give_back(buffers_, block_);
  }
}

CudaHostMemory::CudaHostMemory(CudaContext& context, std::int64_t bytes, std::string_view purpose) {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate_host({}): bytes must not be negative", bytes));
  if (bytes > 0) {
    void* block = nullptr;  // whole pages
    auto const error =
        cudaHostAlloc(&block, static_cast<std::size_t>(bytes), cudaHostAllocPortable | cudaHostAllocMapped);
    if (error != cudaSuccess) {
      throw SystemError{refused("cudaHostAlloc", context.ordinal(), bytes, purpose, text_of(error))};
    }
    data_ = static_cast<std::byte*>(block);
    std::fill_n(data_, bytes, std::byte{0});
  }
  bytes_ = bytes;
}

CudaHostMemory::~CudaHostMemory() {
  if (data_ != nullptr) {
    static_cast<void>(cudaFreeHost(data_));
  }
}

}  // namespace zeroth::device
