// SPDX-License-Identifier: Apache-2.0
/// Reading of regular files. Other kinds are rejected, so that no pipe or device can block a program or feed it without
/// end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Why a file cannot be read: "cannot be opened: No such file or directory", "is a pipe; allowed: a regular file". Does
/// not name the file; the code that catches it adds the name. Not meant for users as it is.
struct ZEROTH_EXPORT Unreadable final : std::runtime_error {
  /// `system_error` is the errno of the failed call, if a call failed.
  explicit Unreadable(std::string const& what, int system_error = 0) : std::runtime_error{what}, error{system_error} {}
  int error;  ///< errno; 0 if the file's type or contents are the reason.
};

/// An open file. Its functions throw Unreadable. Any number of threads may read.
class ZEROTH_EXPORT InputFile {
 public:
  /// Opens the file.
  explicit InputFile(std::filesystem::path const& path);
  InputFile(InputFile const&) = delete;
  InputFile& operator=(InputFile const&) = delete;
  ~InputFile();
  /// Bypasses the system's cache from now on, if the file system allows it. Then offsets, sizes and memory must be
  /// multiples of 4096 bytes, except for a size that reaches beyond the end.
  void go_direct() noexcept;
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }  ///< Its size when it was opened.
  /// Fills all of `bytes`, starting at `position`.
  void read(std::int64_t position, std::span<std::byte> bytes) const;
  /// Reads up to `bytes.size()` bytes, and returns how many.
  [[nodiscard]] std::size_t read_some(std::int64_t position, std::span<std::byte> bytes) const;

 private:
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

/// Size limit of a text that is read as a whole. No file for this library is larger.
inline constexpr std::int64_t largest_text = 100'000'000;

/// Reads a whole file of up to `largest` bytes. Throws Unreadable.
[[nodiscard]] ZEROTH_EXPORT std::string read_text(std::filesystem::path const& path,
                                                  std::int64_t largest = largest_text);

}  // namespace zeroth
