// SPDX-License-Identifier: Apache-2.0
/// The calls by which files and folders change, in place of the system's: a test makes one of them fail, or the last
/// that this process makes. For programs that are linked with support/fail_points.cpp.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace zeroth::testing {

/// Calls on what is below a folder, counted from arm() on: open (which makes a file), write, pwrite, fsync, ftruncate,
/// fallocate, rename, renameat2, mkdir, unlink, unlinkat and rmdir, of any thread.
class FailPoints {
 public:
  static constexpr int kill = -1;  ///< Instead of an errno: SIGKILL, before the call.

  /// Call `number`, from 1 on, sets errno to `error` and fails; 0: none does.
  static void arm(std::filesystem::path const& folder, int number, int error);
  /// All do, from call `number` on.
  static void arm_from(std::filesystem::path const& folder, int number, int error);
  static void disarm();
  [[nodiscard]] static int calls();                            ///< So far.
  [[nodiscard]] static std::string failed();                   ///< "pwrite /a/file"; empty if none did.
  static void break_reads(std::filesystem::path const& file);  ///< By pread, with EIO; an empty path: of none.
  [[nodiscard]] static std::int64_t bytes_read();              ///< By pread, of all files, since the program began.
  static void slow_down(std::chrono::milliseconds each_write);
};

}  // namespace zeroth::testing
