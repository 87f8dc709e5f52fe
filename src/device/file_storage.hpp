// SPDX-License-Identifier: Apache-2.0
/// A file without a name as the storage of a CPU device: threads of its own move pieces, so that streams that wait for
/// them can give up.
#pragma once
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "zeroth/device/storage.hpp"

namespace zeroth::device {

class FileStorage final : public Storage {
 public:
  /// Takes the room. Throws SystemError.
  explicit FileStorage(StorageOptions const& options);
  ~FileStorage() override;  ///< Leaves a disk that is stuck alone: its threads end when it answers.
  void read(Stream& stream, Stored const& from, std::span<std::byte> memory) override;
  void write(Stream& stream, Stored const& to, std::span<std::byte const> memory) override;
  [[nodiscard]] std::int64_t bytes_taken() const override;
  [[nodiscard]] std::string_view warning() const noexcept override { return warning_; }
  [[nodiscard]] bool stuck() const noexcept override;

 private:
  struct Shared;
  enum class Way : bool { read, write };
  void transfer(Way way, Stored const& at, std::byte* memory, std::int64_t bytes) const;

  std::shared_ptr<Shared> shared_;  // with threads that outlive this where the disk is stuck
  std::string warning_;
  std::vector<std::thread> threads_;
};

}  // namespace zeroth::device
