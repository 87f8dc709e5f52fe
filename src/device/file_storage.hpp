// SPDX-License-Identifier: Apache-2.0
/// An unnamed file as the storage of a CPU device. Its own threads move pieces, so that streams that wait for them can
/// give up.
#pragma once
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "zeroth/device/storage.hpp"

namespace zeroth::device {

class FileStorage final : public Storage {
 public:
  /// Reserves the space. Throws SystemError.
  explicit FileStorage(StorageOptions const& options);
  ~FileStorage() override;  ///< Does not wait for a stuck disk: its threads end when it answers.
  using Storage::read;
  using Storage::write;
  void read(Stream& stream, std::span<StoredPiece const> pieces) override { move(Way::read, stream, pieces); }
  void write(Stream& stream, std::span<StoredPiece const> pieces) override { move(Way::write, stream, pieces); }
  [[nodiscard]] std::int64_t bytes_taken() const override;
  [[nodiscard]] std::string_view warning() const noexcept override { return warning_; }
  [[nodiscard]] bool stuck() const noexcept override;

 private:
  struct Shared;
  enum class Way : bool { read, write };
  void move(Way way, Stream& stream, std::span<StoredPiece const> pieces);
  void transfer(Way way, std::span<StoredPiece const> pieces) const;

  std::shared_ptr<Shared> shared_;  // shared with threads that outlive this if the disk is stuck
  std::string warning_;
  std::vector<std::thread> threads_;
};

}  // namespace zeroth::device
