// SPDX-License-Identifier: Apache-2.0
/// Keeps a checkpoint from being removed while it is read: readers hold a shared lock, the remover an exclusive one.
#pragma once
#include <filesystem>

namespace zeroth::checkpoint {

/// Has no effect if the file system has no locks, or the folder cannot be opened.
class UseLock {
 public:
  enum class By { reader, remover };
  /// Tries to lock; does not wait.
  UseLock(std::filesystem::path checkpoint, By by);
  UseLock(UseLock const&) = delete;
  UseLock& operator=(UseLock const&) = delete;
  ~UseLock();
  /// Whether another process or thread reads or removes the checkpoint.
  [[nodiscard]] bool taken() const noexcept { return taken_; }
  /// Throws DamagedError if it is being removed.
  void expect_free() const;

 private:
  std::filesystem::path checkpoint_;
  int descriptor_ = -1;
  bool taken_ = false;
};

}  // namespace zeroth::checkpoint
