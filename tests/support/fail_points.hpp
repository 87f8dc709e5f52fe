// SPDX-License-Identifier: Apache-2.0
/// The calls by which files and folders change, in place of the system's: a test makes one of them fail, or the last
/// that this process makes. For programs that are linked with support/fail_points.cpp.
#pragma once
#include <chrono>
#include <cstddef>
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

  /// Of files below a folder, pread and pwrite do what disks can do. An empty path ends it.
  struct Disk {
    std::filesystem::path folder;
    int read_error = 0;           ///< What pread fails with.
    std::size_t most = 0;         ///< Bytes of a call; 0: as many as are asked for.
    unsigned seed = 0;            ///< Sleeps by turns, by this; 0: never.
    bool holds = false;           ///< Calls do not return until the next odd_disk().
    bool refuses_direct = false;  ///< Takes O_DIRECT, and answers transfers with EINVAL while it is set.
  };
  static void odd_disk(Disk const& disk);
  [[nodiscard]] static int held();  ///< Calls that have come to a disk that holds them, since it does.
};

}  // namespace zeroth::testing
