// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_storage.hpp"

#include <fmt/format.h>

#include <exception>
#include <string_view>

#include "device/cuda_stream.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// Copies on `stream`. `done` is the participle for messages about the data at `at`, a part of `contents`.
void copy(Stream& stream, void* destination, void const* source, std::size_t bytes, Stored const& at,
          std::string_view done, std::string_view contents) {
  auto& cuda = as_cuda(stream);
  if (cuda.failed() || bytes == 0) {
    return;
  }
  auto const error = cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, cuda.get());
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    cuda.fail(std::make_exception_ptr(SystemError{fmt::format(
        "the {} that are offloaded to memory of the host cannot be {}: {}; bytes {} to {}: {} of unit \"{}\"", contents,
        done, describe_call("cudaMemcpyAsync", cuda.context().ordinal(), error), at.position,
        at.position + static_cast<std::int64_t>(bytes), at.state, at.unit)}));
    cuda.failure()->rethrow();
  }
}

}  // namespace

CudaStorage::CudaStorage(CudaContext& context, std::int64_t bytes, std::string_view purpose, std::string_view contents)
    : memory_{context, bytes, fmt::format("{} that are offloaded to memory of the host, {}", contents, purpose)},
      contents_{contents} {}

void CudaStorage::read(Stream& stream, std::span<StoredPiece const> pieces) {
  for (auto const& [from, memory] : pieces) {
    copy(stream, memory.data(), memory_.data() + from.position, memory.size(), from, "read", contents_);
  }
}

void CudaStorage::write(Stream& stream, std::span<StoredPiece const> pieces) {
  for (auto const& [to, memory] : pieces) {
    copy(stream, memory_.data() + to.position, memory.data(), memory.size(), to, "written", contents_);
  }
}

}  // namespace zeroth::device
