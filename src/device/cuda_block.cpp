// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "device/numa.hpp"
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

std::string take_from(CudaAllocator const& allocator, void** block, std::int64_t bytes, StreamRef stream) {
  try {
    *block = allocator.allocate(static_cast<std::size_t>(bytes), stream);
    return *block != nullptr ? std::string{} : "it returned null";
  } catch (std::exception const& error) {
    return error.what();
  }
}

void give_back_to(CudaAllocator const& allocator, void* block, std::int64_t bytes, StreamRef stream) noexcept {
  try {
    allocator.deallocate(block, static_cast<std::size_t>(bytes), stream);
  } catch (...) {  // the error cannot be reported here
  }
}

#ifdef ZEROTH_HAS_NCCL
std::string take_registrable(void** block, std::int64_t bytes) {
  auto const result = nccl().allocate(block, static_cast<std::size_t>(bytes));
  if (result == ncclSuccess) {
    return {};
  }
  auto const last = cudaGetLastError();  // the CUDA error that caused it, if NCCL kept it
  return last == cudaSuccess ? nccl().error_string(result)
                             : fmt::format("{}: {}", nccl().error_string(result), text_of(last));
}
void give_back_registrable(void* block) noexcept { static_cast<void>(nccl().free(block)); }
#else
std::string take_registrable(void** /*block*/, std::int64_t /*bytes*/) { return "built without NCCL"; }
void give_back_registrable(void* /*block*/) noexcept {}
#endif

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

struct Chosen {
  std::mutex mutex;
  std::shared_ptr<CudaAllocator const> allocator = std::make_shared<CudaAllocator const>();
};
Chosen& chosen() noexcept {
  static Chosen of_the_process;
  return of_the_process;
}

}  // namespace

void choose_cuda_allocator(CudaAllocator allocator) {
  ZEROTH_EXPECTS(static_cast<bool>(allocator.allocate) == static_cast<bool>(allocator.deallocate),
                 "set_cuda_allocator(): one of allocate and deallocate is empty; give both, or neither for CUDA's own");
  auto shared = std::make_shared<CudaAllocator const>(std::move(allocator));
  std::lock_guard const lock{chosen().mutex};
  chosen().allocator = std::move(shared);
}

std::shared_ptr<CudaAllocator const> cuda_allocator() {
  std::lock_guard const lock{chosen().mutex};
  return chosen().allocator;
}

char const* BlockSource::name() const noexcept {
  return is_the_programs() ? "the program's allocator" : buffers == CudaBuffers::plain ? "cudaMalloc" : "ncclMemAlloc";
}

std::string BlockSource::take(void** block, std::int64_t bytes) const {
  if (buffers == CudaBuffers::registrable) {
    return take_registrable(block, bytes);
  }
  if (is_the_programs()) {
    return take_from(*allocator, block, bytes, stream);
  }
  auto const error = cudaMalloc(block, static_cast<std::size_t>(bytes));
  return error == cudaSuccess ? std::string{} : text_of(error);
}

void BlockSource::give_back(void* block, std::int64_t bytes) const noexcept {
  if (buffers == CudaBuffers::registrable) {
    give_back_registrable(block);
  } else if (is_the_programs()) {
    give_back_to(*allocator, block, bytes, stream);
  } else {
    static_cast<void>(cudaFree(block));
  }
}

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

CudaMemory::CudaMemory(CudaContext& context, Ledger& ledger, Category category, std::int64_t bytes, BlockSource source)
    : ledger_{ledger}, category_{category}, source_{std::move(source)} {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate({}, {}): bytes must not be negative", name_of(category), bytes));
  if (bytes > 0) {
    block_bytes_ = bytes;
    auto problem = source_.take(&block_, block_bytes_);
    if (problem.empty() && aligned(block_) != block_) {
      // CUDA promises 256 bytes and gives more except for small blocks, so the second attempt is rare.
      source_.give_back(block_, block_bytes_);
      block_bytes_ += block_alignment;
      problem = source_.take(&block_, block_bytes_);
    }
    if (!problem.empty()) {
      auto const why = refused(source_.name(), context.ordinal(), bytes, name_of(category), problem);
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
    source_.give_back(block_, block_bytes_);
  }
}

namespace {

/// The NUMA node that the GPU is connected to: copies to and from others are slower.
std::optional<int> node_of(int ordinal) {
  std::array<char, 32> bus_id{};
  if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), ordinal) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::nullopt;
  }
  return numa_node_of(bus_id.data());
}

}  // namespace

CudaHostMemory::CudaHostMemory(CudaContext& context, std::int64_t bytes, std::string_view purpose) {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate_host({}): bytes must not be negative", bytes));
  if (bytes > 0) {
    void* block = nullptr;  // whole pages
    PreferNode const near{node_of(context.ordinal())};
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
