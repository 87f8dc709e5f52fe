// SPDX-License-Identifier: Apache-2.0
/// Pinned memory of the host as the storage of a CUDA device. Its streams copy from and to it, and the host does not
/// wait.
#pragma once
#include "device/cuda_block.hpp"
#include "zeroth/device/storage.hpp"

namespace zeroth::device {

class CudaStorage final : public Storage {
 public:
  /// `purpose` and `contents` name the stored data in messages: "exp_avg" and "states". `contents` must outlive it.
  /// Throws SystemError.
  CudaStorage(CudaContext& context, std::int64_t bytes, std::string_view purpose, std::string_view contents);
  using Storage::read;
  using Storage::write;
  void read(Stream& stream, std::span<StoredPiece const> pieces) override;
  void write(Stream& stream, std::span<StoredPiece const> pieces) override;
  [[nodiscard]] std::byte* data() const noexcept override { return memory_.data(); }
  [[nodiscard]] std::int64_t bytes_taken() const override { return memory_.bytes(); }

 private:
  CudaHostMemory memory_;
  std::string_view contents_;
};

}  // namespace zeroth::device
