#include "device/cuda_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

constexpr std::int64_t alignment = 4096;

/// The one place that knows which allocator a category's memory comes from.
cudaError_t take(Category /*category*/, void** block, std::int64_t bytes) noexcept {
  return cudaMalloc(block, static_cast<std::size_t>(bytes));
}
void give_back(Category /*category*/, void* block) noexcept { static_cast<void>(cudaFree(block)); }
constexpr char const* name_of_take = "cudaMalloc";

std::byte* aligned(void* block) noexcept {
  auto const address = reinterpret_cast<std::uintptr_t>(block);
  auto const beyond = address % static_cast<std::uintptr_t>(alignment);
  return static_cast<std::byte*>(block) + (beyond == 0 ? 0 : static_cast<std::uintptr_t>(alignment) - beyond);
}

std::string refused(char const* call, int ordinal, std::int64_t bytes, std::string_view purpose, cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  std::size_t free = 0;
  std::size_t total = 0;
  auto const known = cudaMemGetInfo(&free, &total) == cudaSuccess;
  return fmt::format("{} on cuda:{} refused {} bytes for {}: {} ({}){}", call, ordinal, bytes, purpose,
                     cudaGetErrorString(error), cudaGetErrorName(error),
                     known ? fmt::format("; {} of the GPU's {} bytes are free", free, total) : std::string{});
}

}  // namespace

CudaMemory::CudaMemory(CudaContext& context, Ledger& ledger, Category category, std::int64_t bytes)
    : ledger_{ledger}, category_{category} {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate({}, {}): bytes must not be negative", name_of(category), bytes));
  if (bytes > 0) {
    auto error = take(category, &block_, bytes);
    if (error == cudaSuccess && aligned(block_) != block_) {
      // CUDA promises 256 bytes and gives more for all but small blocks, so few ever ask twice.
      give_back(category, block_);
      error = take(category, &block_, bytes + alignment);
    }
    if (error != cudaSuccess) {
      throw SystemError{refused(name_of_take, context.ordinal(), bytes, name_of(category), error)};
    }
    data_ = aligned(block_);
  }
  bytes_ = bytes;
  ledger_.add(category_, bytes_);
}

CudaMemory::~CudaMemory() {
  ledger_.remove(category_, bytes_);
  if (block_ != nullptr) {
    give_back(category_, block_);
  }
}

CudaHostMemory::CudaHostMemory(CudaContext& context, std::int64_t bytes) {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate_host({}): bytes must not be negative", bytes));
  if (bytes > 0) {
    void* block = nullptr;  // whole pages
    auto const error =
        cudaHostAlloc(&block, static_cast<std::size_t>(bytes), cudaHostAllocPortable | cudaHostAllocMapped);
    if (error != cudaSuccess) {
      throw SystemError{refused("cudaHostAlloc", context.ordinal(), bytes, "memory that host and GPU share", error)};
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
