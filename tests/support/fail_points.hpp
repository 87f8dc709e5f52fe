// SPDX-License-Identifier: Apache-2.0
/// Replaces the system calls that change files and folders. A test makes one of them fail, or makes it the last of this
/// process. For programs that are linked with support/fail_points.cpp.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace zeroth::testing {

/// Counts calls on files below a folder, from arm() on and on any thread: open (that creates a file), write, pwrite,
/// fsync, ftruncate, fallocate, rename, renameat2, mkdir, unlink, unlinkat and rmdir.
class FailPoints {
 public:
  static constexpr int kill = -1;  ///< Instead of an errno: SIGKILL, before the call.

  /// Makes call `number`, from 1 on, fail with errno `error`; 0: none fails.
  static void arm(std::filesystem::path const& folder, int number, int error);
  /// Makes all calls from `number` on fail.
  static void arm_from(std::filesystem::path const& folder, int number, int error);
  static void disarm();
  [[nodiscard]] static int calls();           ///< So far.
  [[nodiscard]] static std::string failed();  ///< The failed call, "pwrite /a/file"; empty if there is none.
  static void break_reads(std::filesystem::path const& file);  ///< Makes pread fail with EIO; an empty path stops that.
  [[nodiscard]] static std::int64_t bytes_read();              ///< By pread, from all files, since the program began.
  static void slow_down(std::chrono::milliseconds each_write);

  /// Gives pread and pwrite on files below a folder the behaviour of real disks. An empty path ends it.
  struct Disk {
    std::filesystem::path folder;
    int read_error = 0;           ///< The errno of pread.
    std::size_t most = 0;         ///< Maximum bytes per call; 0: no limit.
    unsigned seed = 0;            ///< Seed of random sleeps; 0: none.
    bool holds = false;           ///< Calls block until the next odd_disk().
    bool refuses_direct = false;  ///< Accepts O_DIRECT, but fails transfers with EINVAL while it is set.
  };
  static void odd_disk(Disk const& disk);
  [[nodiscard]] static int held();  ///< Calls that have reached a disk that holds them, since odd_disk().
};

}  // namespace zeroth::testing
